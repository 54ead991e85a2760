"""The engines on PostgreSQL: over lease rows, and over its own advisory locks."""
