"""The exit codes of `fencelock`. docs/cli.md has the same table."""

from __future__ import annotations

CONFLICT = 1
"""The lock was not free in time; `-E` chooses another code. `flock` uses 1, too."""
USAGE = 64
"""The command line is wrong (EX_USAGE of sysexits.h; `flock` uses it, too)."""
UNAVAILABLE = 69
"""The engine can't be reached or can't do what was asked (EX_UNAVAILABLE)."""
INTERNAL = 70
"""A bug in Fencelock itself (EX_SOFTWARE)."""
LOST = 119
"""The lease was lost while the command ran. Shells, sysexits.h and common tools do not use 119."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
"""Plus the number of the signal, as in shells."""
