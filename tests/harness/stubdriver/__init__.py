"""A driver of no cards: shared libraries in C with the functions of NVIDIA's, over cards that a JSON file describes."""

from harness.stubdriver.build import BuildError, ensure_libraries
from harness.stubdriver.cards import StubCard, StubDriver, StubInstance, StubLink, StubProcess, a100
from harness.stubdriver.loading import use_stub

__all__ = [
    "BuildError",
    "StubCard",
    "StubDriver",
    "StubInstance",
    "StubLink",
    "StubProcess",
    "a100",
    "ensure_libraries",
    "use_stub",
]
