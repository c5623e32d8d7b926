"""The entries of the registries, one file for each part of the system; read them through ``invariants``."""
