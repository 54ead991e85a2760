"""Every lock that is measured, reduced to acquire and release."""
