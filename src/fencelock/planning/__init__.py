"""A model of contention: how long callers wait, computed from a few figures. Pure: no time, no sockets."""
