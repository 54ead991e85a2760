"""Redlock with fences: one lock on several Redis servers that know nothing of one another."""
