"""The thin shell: sockets, threads, signals and the clock.

One rule: it commits what is pending and speaks what has become true, once per turn of the loop;
what anything means is decided below.
"""
