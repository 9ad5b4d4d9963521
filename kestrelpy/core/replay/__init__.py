"""From records to a queue again."""
