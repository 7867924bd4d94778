"""Partitioners of a sink: the directory of each record."""
