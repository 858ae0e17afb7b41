"""The local cluster's stand-in for kube-scheduler: a queue of pods that asks an extender.

It treats an extender as kube-scheduler 1.34 does with ``nodeCacheCapable`` and ``managedResources``: serial scheduling
cycles, parallel binds, refused pods wait for a cluster event. It must not know what the extender decides by.
"""

from gpuloom.local.queue.extender import ExtenderClient, ExtenderError
from gpuloom.local.queue.queue import PodQueue

__all__ = ["ExtenderClient", "ExtenderError", "PodQueue"]
