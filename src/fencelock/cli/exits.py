"""The exit codes of `fencelock`, all in one place; docs/cli.md has the same table."""

from __future__ import annotations

CONFLICT = 1
"""The lock was not to be had in time; `-E` chooses another. As `flock` does."""
USAGE = 64
"""The command line makes no sense (EX_USAGE of sysexits.h, as `flock` uses it)."""
UNAVAILABLE = 69
"""The engine can't be reached or can't do what was asked (EX_UNAVAILABLE)."""
INTERNAL = 70
"""A defect in Fencelock itself (EX_SOFTWARE)."""
LOST = 119
"""The lease was lost while the command ran. Not used by shells, sysexits.h or the usual tools."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
"""Plus the number of the signal, as shells do."""
