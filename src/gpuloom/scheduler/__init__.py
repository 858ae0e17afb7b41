"""The scheduler process: webhook, filter, bind and node loop around the pure engine.

Flows live here: they read requests and watches, ask the engine, and perform what it decided. No rule about cards may
be written in this package, and it does not know the node package: the two meet in annotations.

http          takes calls of kube-scheduler and of the API server
admission     completes new pods (the mutating webhook)
filter        answers /filter: chooses a node and cards, and reserves them
bind          answers /bind: takes the node lock, and writes one Binding with the decision
watch         lists and watches pods, nodes and quotas
groups        gives back what pods hold that were to start together and did not
pods, nodes   apply what the watches show: reservations are confirmed and forgotten, cards are registered
preemption    evicts pods to make room for those of higher priority
defragmentation  moves pods to make room for others
leadership    says whether this replica may decide and write
events        writes events; engine/decision/event_messages.py makes their texts where they tell a decision
outlook       learns which pods are to be expected, and counts the CPU of nodes
metrics       answers Prometheus
certificates  keeps the certificate of the server
recording     records a running process and replays it

At the top: ``process`` starts and stops the ``parts``, which share one ``state``.
"""

from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.serving.addresses import CannotServeError

__all__ = ["CannotServeError", "SchedulerProcess", "SchedulerSettings", "SettingsError"]
