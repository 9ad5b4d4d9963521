"""One subscription: its ready line, its leases, its nacks, its outbox."""
