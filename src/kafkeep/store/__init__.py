"""One narrow door to object storage: S3, a local folder, memory; retry wraps any of them."""
