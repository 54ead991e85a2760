"""The SQLite engine: queues in a file, for the processes of one machine. No server needed."""
