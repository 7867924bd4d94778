"""The configuration of a worker: its file, variables and flags, and config providers."""
