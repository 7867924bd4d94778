"""Does a target hold what the archive holds? Read back and compared record by record."""
