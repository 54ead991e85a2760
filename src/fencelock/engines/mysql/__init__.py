"""MySQL and MariaDB, by lease rows and by their own GET_LOCK."""
