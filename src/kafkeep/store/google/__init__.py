"""The store in Google Cloud Storage."""
