"""Mixed pairs: the sender of one target feeds the receiver of another."""
