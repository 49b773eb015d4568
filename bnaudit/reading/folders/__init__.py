"""Models in several files: shards, Hugging Face folders, torch.distributed.checkpoint."""
