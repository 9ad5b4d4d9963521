"""Records, as the core appends them and a log takes them."""
