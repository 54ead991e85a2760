"""What the engines on SQL databases have in common: a pool of connections, and how answers are read."""
