"""The scheduler process: webhook, filter, bind and node loop around the pure engine.

Flows live here: they read requests and watches, ask the engine, and perform what it decided. No rule about cards may
be written in this room, and it does not know the node room: the two meet in annotations.
"""

from gpuloom.scheduler.process import SchedulerProcess
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.serving.addresses import CannotServeError

__all__ = ["CannotServeError", "SchedulerProcess", "SchedulerSettings", "SettingsError"]
