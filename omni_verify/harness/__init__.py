"""The language of scenarios: actors, stages, orders, dyed frames, and the runner of one case."""
