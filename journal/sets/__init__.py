"""Sets of item numbers and a hash table, compact in memory."""
