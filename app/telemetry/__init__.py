"""Every number that is published, one file for each process.

Strategy: names, labels and buckets are upstream's, so that dashboards go on working. A class owns
the metrics of one process in the registry it is handed; its methods speak of what happened, and
remember the series they touched, so that an observation is one look-up and one addition.
"""
