"""Pictures: static SVG made by matplotlib, coloured by the page's own style sheet, each with its numbers as a table."""
