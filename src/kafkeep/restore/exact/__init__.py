"""Restore records at their original offsets."""
