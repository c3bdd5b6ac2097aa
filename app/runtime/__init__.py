"""What every process stands on: clock, loops, election, HTTP server, probes, metrics, logs."""
