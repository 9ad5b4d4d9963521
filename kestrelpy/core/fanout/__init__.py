"""Fan-out children: the state of each, and the notes that they share."""
