"""JSON texts in Arrow columns: scan, decode and encode them without loss."""
