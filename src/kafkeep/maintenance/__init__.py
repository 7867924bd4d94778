"""Inspect and maintain an archive: verify, info, cat, gc, retention, drill, reports."""
