"""The audit: does each item have one end, and does everything add up?"""
