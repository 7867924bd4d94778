"""What a worker is told: its file, variables and flags, and the secrets they point to."""
