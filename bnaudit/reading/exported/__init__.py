"""torch.export programs: archives, graphs, weights."""
