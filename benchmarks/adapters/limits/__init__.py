"""Limits: the least work that does the job, by hand and with no safety at all. One file each."""
