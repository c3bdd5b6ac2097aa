"""The controllers of the sandbox: each makes what is into what is asked for."""
