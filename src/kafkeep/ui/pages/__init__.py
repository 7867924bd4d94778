"""One module for each page, with its routes; ``registry.py`` lists them."""
