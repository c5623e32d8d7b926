"""Searching the schedules of a program: plans, shards, replay, shrinking and keeping what is found."""
