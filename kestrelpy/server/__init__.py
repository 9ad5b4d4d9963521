"""The asyncio shell: sockets, threads, signals and the clock.

One rule: once per turn of the loop it commits the pending records and sends the replies that have
become true. The floors below decide what anything means.
"""
