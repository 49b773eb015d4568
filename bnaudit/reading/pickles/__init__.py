"""Pickles: an opcode loop of our own that builds inert stand-ins and executes nothing."""
