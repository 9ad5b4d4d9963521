"""What the jobs share."""
