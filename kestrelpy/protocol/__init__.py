"""The memcache text protocol: bytes to commands, commands to replies, one conversation per
connection.

One rule: no sockets, no files, no clock. Bytes and the time come in as arguments; a reply leaves
when it is true.
"""
