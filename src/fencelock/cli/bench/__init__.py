"""The benchmark that users run on their own engine."""
