"""The updater: brings running pods to their recommendation, by resize or by eviction."""
