"""Connect's data as Arrow columns: schemas, columns, rows; JSON texts and Avro schemas."""
