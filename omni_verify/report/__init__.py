"""Renders events and results: terminal, JSON, JUnit."""
