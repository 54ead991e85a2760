"""Locks on Redis and Valkey: one server, Sentinel or Cluster. `engine` has a map of the files."""
