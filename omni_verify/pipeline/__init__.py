"""The reference pipeline: stages that stream chunks to each other, written as production code."""
