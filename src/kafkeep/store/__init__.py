"""Object stores: S3, a local folder, memory, and a wrapper that retries."""
