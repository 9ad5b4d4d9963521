"""Which segments are rewritten, how, and what becomes of the old ones."""
