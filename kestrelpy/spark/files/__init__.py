"""Reads journals from files."""
