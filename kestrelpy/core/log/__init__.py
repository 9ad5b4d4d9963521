"""Records, and the logs that the core appends them to."""
