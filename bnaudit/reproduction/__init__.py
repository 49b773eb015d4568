"""The smallest case that shows a defect: `bnaudit reproduce`.

A defect is found by a few forwards, made small by delta debugging, and written down as a script in plain PyTorch or
onnxruntime with the few inputs that it needs. It exits with 1 while the defect is there and with 0 when it is mended.
"""
