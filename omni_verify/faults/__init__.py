"""What goes wrong on purpose: nemeses and seeded bugs."""
