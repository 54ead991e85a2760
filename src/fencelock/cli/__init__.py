"""The command line: a `flock` for every engine, a look at the queues, and a demo."""
