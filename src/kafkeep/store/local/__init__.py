"""The store in a local folder."""
