"""Recordings: the input and the answers of a scheduler, as JSON lines (recording, binding 8).

Recording: the calls and the watches of a running process come in (``recorder`` is its observer, ``liveclient`` collects
what calls write); lines go out to a file (``writer``, ``rotation``). Replay: lines come in (``source``, ``lines``) and
answer lines go out (``player``).

A replay runs the very flows of the live process over a client whose every write succeeds (``replayclient``) and a clock
that stands still (``replayclock``). No rule about cards, pods or nodes may be written here.
"""

from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.player import Player

__all__ = ["LineError", "Player"]
