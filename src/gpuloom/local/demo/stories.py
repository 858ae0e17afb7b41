"""All stories by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from gpuloom.local.demo.making_room import tell_of_making_room
from gpuloom.local.demo.story import Story, tell_of_sharing
from gpuloom.vendors.profile import Profile

StoryName = Literal["sharing", "making-room"]

STORIES: Mapping[StoryName, Callable[[Sequence[Profile]], Story]] = {
    "sharing": tell_of_sharing,
    "making-room": tell_of_making_room,
}
