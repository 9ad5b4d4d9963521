"""Client libraries of every language against real daemons, with one list of steps for all."""
