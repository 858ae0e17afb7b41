"""At whom it lies that a pod waits for cards: one word for each, the same in metrics and API."""

from typing import Literal, get_args

Cause = Literal["cards", "node", "gate", "unseen", "other"]
"""cards: gpuloom refused; node: kube-scheduler did before it asked; gate: it may not try; unseen: it has not yet."""
CAUSES: tuple[Cause, ...] = get_args(Cause)
