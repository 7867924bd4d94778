"""What kafkeep uses of PySpark beyond its public API. No other module does.

A release of Spark may rename or drop any of it. Each function then does the same in a public way,
which is slower or tells less.
"""
