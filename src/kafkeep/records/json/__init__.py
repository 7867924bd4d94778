"""JSON text in Arrow columns: scanning, decoding and encoding without loss."""
