"""The items of a queue: put and taken, looked at by marker, changed one at a time."""
