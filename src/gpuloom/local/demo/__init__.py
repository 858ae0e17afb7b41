"""The demo: a local cluster, a short story of pods that come and go, and a picture of who is on which card and why not.

The picture is drawn from API objects alone, as any outsider could.
"""

from gpuloom.local.demo.performance import DemoError, perform_live, perform_once
from gpuloom.local.demo.stories import STORIES, StoryName

__all__ = ["STORIES", "DemoError", "StoryName", "perform_live", "perform_once"]
