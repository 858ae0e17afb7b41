"""A small Kubernetes in one process, for the demo, the tests and experiments.

An API server, a pod queue that treats an extender as kube-scheduler does, and nodes whose kubelets and cards are
simulated. The scheduler and the node agents that run inside are the real ones.
"""
