"""A queue: what is put, what is due, what is kept, and its children."""
