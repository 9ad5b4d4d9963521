"""Work for the journals off the loop: syncs, reads, snapshots, and their descriptors."""
