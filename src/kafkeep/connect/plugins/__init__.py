"""The connector classes there are, their keys, and whether a configuration is right."""
