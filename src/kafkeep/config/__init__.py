"""Options and the small values they are made of: every option is declared once, here."""
