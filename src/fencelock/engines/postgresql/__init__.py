"""PostgreSQL, by lease rows and by its own advisory locks."""
