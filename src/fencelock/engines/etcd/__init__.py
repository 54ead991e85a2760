"""Locks on etcd; begin with `engine.py`."""
