"""How bytes become values without running anything: containers, pickles, tensors, graphs.

Formats are thin and stand on this package; nothing here imports a framework, executes a file's code, or
reads a tensor that is not a normalization layer's.
"""
