"""The store in S3, or a service with the same API."""
