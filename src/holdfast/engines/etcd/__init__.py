"""The etcd engine; begin with `engine.py`."""
