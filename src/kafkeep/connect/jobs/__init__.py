"""Connectors as jobs: a sink is a backup, a source a restore, and a compacted pair takes turns."""
