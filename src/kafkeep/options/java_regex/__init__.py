"""Patterns that users write: Java's syntax, run in linear time.

Every pattern from a configuration or the command line goes through this package, none through
Python's ``re``: that one backtracks, so that one pattern can stop the whole process for ever.
"""

from kafkeep.options.java_regex.pattern import (
    JavaPattern,
    Replacement,
    compile_java_regex,
    java_regex,
    parse_replacement,
)

__all__ = [
    "JavaPattern",
    "Replacement",
    "compile_java_regex",
    "java_regex",
    "parse_replacement",
]
