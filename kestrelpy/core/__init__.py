"""The meaning of a queue: pure, synchronous code that appends records to a log in memory.

One rule: the time is an argument. The core imports none of asyncio, os, time and logging, and it
never calls out.
"""
