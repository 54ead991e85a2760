"""Fencelock inside frameworks: one thin module each, which is imported only by programs that use it.

The framework is the program's own dependency, so there are no extras for it.
"""
