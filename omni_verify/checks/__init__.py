"""Oracles: an observation of a run in, findings out."""
