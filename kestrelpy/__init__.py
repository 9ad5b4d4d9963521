"""kestrelpy: a queue daemon for memcache clients, with reliable fetch over an fsynced journal."""

__version__ = "0.1.0"
