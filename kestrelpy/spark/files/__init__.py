"""Reading journals from files."""
