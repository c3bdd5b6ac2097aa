"""What a person sees while everything runs: values, their picture, and the terminal."""
