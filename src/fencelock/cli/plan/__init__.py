"""`fencelock plan`: what contention to expect."""
