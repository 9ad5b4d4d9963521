"""The data directory: its lock, its folders, and the small files next to them."""
