"""At whom it lies that a pod waits for cards: one word for each, the same in metrics and API."""

from typing import Literal, get_args

Cause = Literal["cards", "node", "gate", "scheduler", "unseen", "other"]
"""What each means.

cards      gpuloom refused it
node       kube-scheduler refused every node before it asked
gate       a scheduling gate: no scheduler may try it
scheduler  it names another scheduler than the one that asks gpuloom
unseen     kube-scheduler has not tried it yet
other      kube-scheduler's last words say it
"""
CAUSES: tuple[Cause, ...] = get_args(Cause)
