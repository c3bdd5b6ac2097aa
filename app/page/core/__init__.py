"""What the page decides: views as values, charts, usage over time."""
