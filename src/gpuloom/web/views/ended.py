"""Pods that hold no cards any more and will get none."""

from gpuloom.wire.objects import Pod


def tell_end(pod: Pod) -> str:
    """Say of a pod that has ended, or is deleted before it had a node, that it has; nothing of any other."""
    if pod.is_over:
        return "has ended and holds no card"
    return "is being deleted and gets no card" if pod.is_terminating and not pod.spec.node_name else ""
