"""What `stats` answers."""
