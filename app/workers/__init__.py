"""The loop shell: gather, decide, carry out."""
