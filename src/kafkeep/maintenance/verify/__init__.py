"""Verify that an archive is complete and unchanged."""
