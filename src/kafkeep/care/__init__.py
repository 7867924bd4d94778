"""Looking after an archive: verify it, describe it, read it, and see that all around it is well."""
