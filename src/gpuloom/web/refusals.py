"""What is refused to somebody who asks, and to whom."""

from gpuloom.web.views.source import Viewer


class RefusedError(Exception):
    """A request that is not answered; becomes a Status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def need_nodes(viewer: Viewer) -> None:
    """Refuse whoever may not list nodes."""
    if not viewer.nodes:
        raise RefusedError(403, "this needs the right to list nodes")


def need_pods(viewer: Viewer, namespace: str) -> None:
    """Refuse whoever may not list the pods of a namespace."""
    if not viewer.sees(namespace):
        raise RefusedError(403, f"this needs the right to list pods in namespace {namespace}")
