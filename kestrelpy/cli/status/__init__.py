"""Whether all is well with a server, and its busiest queues."""
