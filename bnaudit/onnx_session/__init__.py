"""An ONNX graph as a session: running it in onnxruntime, and edited copies of it for what the graph does not show."""
