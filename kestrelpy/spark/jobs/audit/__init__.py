"""The audit: each item has one end, and the sums of each queue add up."""
