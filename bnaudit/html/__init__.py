"""The HTML report: what stands on the page and in which words; the layout is in `templates`, pictures are in `charts`.

Jinja2 and matplotlib are imported when a page is rendered, never with the package.
"""
