"""How flags are declared and parsed, and those that several programs share."""
