"""Data objects of an archive: the writers and readers of every format."""
