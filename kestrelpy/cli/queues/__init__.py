"""The queues of a server: their list, their declared settings, their schedules."""
