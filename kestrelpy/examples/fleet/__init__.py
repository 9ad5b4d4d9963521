"""A whole fleet on one machine, to try and to test: `python -m kestrelpy.examples.fleet`."""
