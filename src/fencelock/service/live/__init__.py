"""The live page of a replica: who holds what, who waits, what happened, and the figures of an hour."""
