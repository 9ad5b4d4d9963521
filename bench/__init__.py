"""Speed, compared: kestrelpy and its peers under the same load, in turns, in one run.

The one rule: ratios only. A figure from one machine or one minute is never set beside a figure
from another. Start with README.md; `python -m bench` does everything.
"""
