"""Columns to the bytes of objects, and back: JSON lines, Avro, Parquet, bytes."""
