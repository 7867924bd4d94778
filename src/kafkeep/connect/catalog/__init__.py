"""What the service can show: the live cluster, and the archives that its connectors write."""
