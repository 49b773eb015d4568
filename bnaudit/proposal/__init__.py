"""A first settings file for the models in a folder: what is there, what each needs, and where its code may be.

Models are read as `bnaudit.describe` reads them and Python files are parsed; nothing is imported or run.
"""
