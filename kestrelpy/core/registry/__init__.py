"""Which queues there are: created, deleted, and what outlives them."""
