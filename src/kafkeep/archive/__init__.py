"""The format: what lies in the bucket and what it means. Pure but for the store's door."""
