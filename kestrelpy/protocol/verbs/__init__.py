"""What each request does and answers."""
