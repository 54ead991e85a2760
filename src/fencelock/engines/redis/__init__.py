"""Locks on Redis and Valkey: one node, Sentinel or Cluster."""
