"""Redlock: one lock on several independent Redis servers. `engine` has a map of the files."""
