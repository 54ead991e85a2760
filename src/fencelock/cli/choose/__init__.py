"""`fencelock choose`: whether you need a lock, and which one."""
