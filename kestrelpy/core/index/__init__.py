"""Data structures: which items are ready, delayed, leased, dead, locked."""
