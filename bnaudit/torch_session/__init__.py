"""A PyTorch model as a session: opening, watching and restoring it."""
