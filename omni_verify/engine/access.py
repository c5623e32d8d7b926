"""Shared accesses as decision points: an AST rewrite of chosen modules."""

SITES: list[str] = [""]
