"""Torture of real engines: workers lock and write, faults hit them, and a judge reads the history."""
