"""Restore into other partitions, at other times, or only some records."""
