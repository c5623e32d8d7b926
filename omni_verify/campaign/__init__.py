"""Runs over many cases; emits events, prints nothing."""
