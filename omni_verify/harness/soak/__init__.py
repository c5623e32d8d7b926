"""What runs in the process of a soak's stage, and what its requests do."""
