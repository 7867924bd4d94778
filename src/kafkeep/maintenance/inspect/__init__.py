"""Show what an archive holds: info, ls, cat, find, commits, diff."""
