"""The life of each item, as a row."""
