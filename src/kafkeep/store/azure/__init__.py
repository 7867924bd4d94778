"""The store in Azure Blob Storage."""
