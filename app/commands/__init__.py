"""The verbs that ask once, print and end."""
