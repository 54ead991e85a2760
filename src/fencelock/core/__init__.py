"""Pure logic: no clock, no sockets, no threads. What is true of a lock whatever carries it."""
