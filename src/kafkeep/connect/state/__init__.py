"""What outlives a worker: connectors and the lease, in a store that can only create."""
