"""Reads queues from running servers."""
