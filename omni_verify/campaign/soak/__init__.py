"""Soaks: a system under load for minutes to days, measured and judged."""
