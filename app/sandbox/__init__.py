"""A cluster in memory behind the same ports as a real one."""
