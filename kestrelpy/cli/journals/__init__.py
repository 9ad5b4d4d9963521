"""The data that a command works on without a server: backups, the journals of Kestrel, repairs."""
