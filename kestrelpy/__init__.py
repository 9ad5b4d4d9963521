"""kestrelpy: a queue daemon for memcache clients, with reliable fetch over an fsynced journal."""

__version__ = "1.0.0b1"
