"""Patterns that users write: Java's syntax, run in linear time.

Every pattern from a configuration or the command line uses this package. Python's ``re``
backtracks, so a single pattern could block the whole process forever.
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
