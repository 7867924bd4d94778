"""Restore the offsets of consumer groups."""
