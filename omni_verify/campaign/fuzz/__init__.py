"""Fuzzing: random legal programs, crossed with schedules and nemeses."""
