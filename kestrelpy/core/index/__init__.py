"""Data structures for ready, delayed, leased, dead and locked items."""
