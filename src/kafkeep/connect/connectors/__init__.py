"""Connector configurations: the keys of each maker's classes and what they mean."""
