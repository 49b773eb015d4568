"""A model saved, loaded again in a fresh process, and run: what came back otherwise."""

from bnaudit.round_trip.trip import round_trip

__all__ = ["round_trip"]
