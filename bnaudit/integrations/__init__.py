"""Callbacks for trainers: thin, one file per library, imported only by who uses that library."""
