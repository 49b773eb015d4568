"""The measured half of a comparison: the same inputs through both models, and the first place where they part."""
