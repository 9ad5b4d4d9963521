"""One subscription: its ready line, leases, nacks and outbox."""
