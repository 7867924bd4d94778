"""Records to directories: by partition, field, time, and together; safe as paths."""
