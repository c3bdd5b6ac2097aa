"""What is wrong with an installation, judged from facts that were gathered."""
