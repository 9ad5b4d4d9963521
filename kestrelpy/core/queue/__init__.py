"""A queue: its puts, its delayed items, its retention and its children."""
