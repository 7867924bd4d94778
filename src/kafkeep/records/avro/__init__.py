"""Avro's binary encoding, and the mapping between Avro and Connect schemas."""
