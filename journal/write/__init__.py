"""The writer: pending records, batches, syncs, segments."""
