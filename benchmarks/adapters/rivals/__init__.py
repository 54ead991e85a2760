"""Rivals, one file each. A file imports its package when it connects, so a missing rival is left out."""
