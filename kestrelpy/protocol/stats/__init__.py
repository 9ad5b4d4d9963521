"""The replies to `stats`."""
