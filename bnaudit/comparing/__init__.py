"""Comparing two artifacts: `use_case.compare(baseline, subject)` gives a Report of what differs."""
