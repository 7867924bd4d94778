"""Record batches: find, check, decode, rewrite and build."""
