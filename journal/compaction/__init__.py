"""Compaction: which segments are rewritten, how, and how the old ones go."""
