"""What the page shows while it is open: sampled once, for everybody who watches."""
