"""Spark: the session, tasks on it, and an archive as a DataFrame."""
