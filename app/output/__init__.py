"""What is shown to people and to programs that read over their shoulders."""
