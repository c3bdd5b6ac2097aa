"""Every flag: declared once, read once, handed on as frozen values."""
