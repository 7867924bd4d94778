"""Data objects: what they hold, with the writer of each format beside its reader."""
