"""Objects in a bucket without a kafkeep log, presented as if a log named them."""
