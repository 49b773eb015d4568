"""Pickled torch.nn.Modules: the tree, its norm layers, what depends on the mode, what eval() misses."""
