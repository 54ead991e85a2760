"""`python -m fencelock` is the `fencelock` command."""

from fencelock.cli.main import main

main()
