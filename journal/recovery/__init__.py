"""From files to a journal again: find segments, replay, name damage, reopen."""
