"""Recordings: what the decision core was told and what it answered, as JSON lines (recording, binding 8).

A replay runs the very flows of the live process over a client whose every write succeeds and a clock that stands still.
No rule about cards, pods or nodes may be written here.
"""

from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.player import Player

__all__ = ["LineError", "Player"]
