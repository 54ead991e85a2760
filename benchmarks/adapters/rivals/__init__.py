"""Other locks, one file each, which imports its package when it connects: one that is missing is left out."""
