"""Pure logic: no clock, no sockets, no threads. It is the same for every engine."""
