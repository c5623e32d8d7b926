"""The seeded bugs, each against the catalogue, the properties and the pipeline's tests."""
