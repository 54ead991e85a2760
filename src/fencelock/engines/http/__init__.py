"""The engine contract on the wire: the client's side of the lock service."""
