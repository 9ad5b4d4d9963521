"""Dead letters, and transfers of items to another queue."""
