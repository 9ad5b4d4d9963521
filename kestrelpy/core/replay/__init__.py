"""Rebuilding a queue from its records."""
