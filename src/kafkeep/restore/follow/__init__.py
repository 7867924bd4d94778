"""Follow an archive: append what it gains, cycle by cycle."""
