"""Connector classes, the definitions of their keys, and validation of configurations."""
