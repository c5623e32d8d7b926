"""Fuzzed programs: how they are generated, played and judged."""
