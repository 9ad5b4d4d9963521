"""The meaning of a queue: pure and synchronous, told the time, appending to a log in memory.

One rule: nothing here imports asyncio, os, time or logging, and nothing here calls out.
"""
