"""What a file is when it is no model that is read: foreign formats, archives, other files."""
