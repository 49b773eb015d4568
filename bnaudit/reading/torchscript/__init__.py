"""TorchScript archives: the object tree, and the code followed without running it."""
