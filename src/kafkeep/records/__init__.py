"""Records as columns: schemas, Arrow arrays, converters, transforms and partitioners."""
