"""The command line: one file per verb, errors become exit codes in ``main``.

``archive/`` has the verbs that only read an archive.
"""
