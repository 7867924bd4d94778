"""The command line: one file per verb, errors become exit codes in ``main``."""
