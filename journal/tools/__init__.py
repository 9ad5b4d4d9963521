"""What operators use beside a daemon: verify, repair, dump, backup."""
