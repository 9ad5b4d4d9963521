"""Words: bytes to commands, commands to replies, and one conversation per connection.

One rule: no sockets, no files, no clock. Bytes come in with the time, bytes go out when they are
true.
"""
