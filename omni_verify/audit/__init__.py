"""What is left behind: shared-memory objects, processes, container entries."""
