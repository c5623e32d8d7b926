"""Executable contracts for the connectors of multi-stage inference pipelines."""

__version__ = "0.1.0"
