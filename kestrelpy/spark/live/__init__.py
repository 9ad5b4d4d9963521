"""Reading queues from running servers."""
