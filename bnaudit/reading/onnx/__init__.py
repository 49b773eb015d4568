"""ONNX by a walk over its wire format: graphs, constants, norm layers, without decoding weights."""
