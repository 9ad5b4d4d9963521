"""One row for each item, from its put to its end."""
