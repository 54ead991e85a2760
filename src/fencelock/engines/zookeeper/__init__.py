"""Locks on ZooKeeper: an ephemeral sequential node for each ticket."""
