"""Items on their way from one queue to another."""
