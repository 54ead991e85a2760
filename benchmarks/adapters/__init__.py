"""Every lock that the benchmark measures, reduced to acquire and release."""
