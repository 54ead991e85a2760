"""Private servers of every engine: real ones, started for a test and thrown away after it.

They need the servers' programs on this machine, and Linux. `process.py` has what they have in common.
Nothing imports this package before it is needed.
"""
