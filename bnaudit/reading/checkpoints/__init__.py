"""Checkpoints: state dicts, modules and optimizers in one pickled object, and what makes a name a norm layer."""
