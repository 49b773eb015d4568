"""bnaudit audits the normalization layers of a model before it is deployed."""

__version__ = "0.1.0"
