"""The engines on MySQL and MariaDB: over lease rows, and over their own GET_LOCK."""
