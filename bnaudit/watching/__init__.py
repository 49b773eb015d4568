"""Guards around a training loop: what `bnaudit.watch` looks at and what it says."""
