"""What went through the queues of many servers, as tables for Spark."""
