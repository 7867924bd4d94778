"""Compare a cluster with an archive, record by record."""
