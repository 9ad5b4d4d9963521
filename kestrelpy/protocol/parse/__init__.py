"""The parser: from bytes to requests."""
