"""Who runs next: points, orders, gates, and the controlled scheduler."""
