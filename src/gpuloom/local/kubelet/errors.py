"""Why the kubelet does not let a pod run."""


class AdmissionError(Exception):
    """A pod is not admitted; the message is the one that the kubelet writes into the pod's status."""
