"""The kubelet of the sandbox: it starts, watches, resizes and ends the pods of all nodes."""
