"""The speed of kestrelpy beside that of its peers: the same load, in turns, in one run.

One rule: ratios only. A figure is never compared with a figure from another machine or
another minute. Start with README.md; `python -m bench` does everything.
"""
