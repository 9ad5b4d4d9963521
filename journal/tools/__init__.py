"""The tools of an operator, beside a daemon: verify, repair, dump, backup."""
