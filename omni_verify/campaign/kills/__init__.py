"""The kill matrix: any one process of the reference pipeline, killed at any phase."""
