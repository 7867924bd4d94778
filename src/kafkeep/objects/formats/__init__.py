"""File formats of sink objects: JSON, Avro, Parquet and raw bytes."""
