"""Objects of a sink: rotation, naming, writing and reading back."""
