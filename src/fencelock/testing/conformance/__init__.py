"""The tests that every engine must pass: for our own engines, and for those of other packages.

`suite` has all of them. Only this package needs pytest and pytest-asyncio; Fencelock does not require them.
"""
