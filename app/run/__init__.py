"""`plumbline run`: the whole autoscaler in one process, in memory or beside a real cluster."""
