"""Every option of the command line, of Python and of connector files, declared once."""
