"""From bytes to requests."""
