"""The fleet: its members, and moves in and out of its engine."""
