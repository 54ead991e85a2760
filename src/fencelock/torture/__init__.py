"""Torture: the real code in a simulated world that does its worst, and checkers that look for harm."""
