"""Benchmarks: kafkeep beside the floor, in one run on real services. ``make bench``."""
