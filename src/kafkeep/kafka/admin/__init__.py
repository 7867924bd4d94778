"""Describe and change a cluster: topics, offsets and consumer groups."""
