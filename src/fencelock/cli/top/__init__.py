"""`fencelock top`: a live view of the locks at an engine, in the terminal."""
