"""The HTTP shell: gather, decide, answer."""
