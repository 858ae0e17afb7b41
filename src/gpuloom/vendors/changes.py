"""What the webhook may change on a pod, as the hooks that complete containers see it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gpuloom.model.nodecards import Facts
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Container


class MutationError(WireError):
    """A container cannot be completed; the message says what is wrong, in HAMi's words where HAMi has some."""


class ContainerChange(Protocol):
    """Changes to one container, and the changes to its pod that it causes."""

    def set_limit(self, name: str, value: int) -> None:
        """Set ``resources.limits`` of one resource."""

    def set_request(self, name: str, value: int) -> None:
        """Set ``resources.requests`` of one resource."""

    def has_env(self, name: str) -> bool:
        """Tell whether the container has an environment variable, appended ones included."""

    def append_env(self, name: str, value: str) -> None:
        """Append an environment variable, also when the name is there already: the last one counts."""

    def set_runtime_class(self, name: str) -> None:
        """Run the whole pod with a runtime class."""

    def annotate(self, key: str, value: str) -> None:
        """Set an annotation of the pod."""


def set_amount(container: Container, change: ContainerChange, name: str, value: int) -> None:
    """Set a limit, and the request if there is one: the API server wants both to be equal for a card."""
    change.set_limit(name, value)
    if name in container.requests:
        change.set_request(name, value)


FactsOf = Callable[[str], Iterable[Facts]]
"""What the nodes with cards of a vendor, by its word, say of all their cards."""


def know_no_node(_word: str) -> Iterable[Facts]:
    """Return what nodes say where none is known."""
    return ()


@dataclass(frozen=True, slots=True)
class Switches:
    """What beside the pod decides how it is completed: switches of the scheduler (scheduler 10), and the nodes.

    exclusive_cores    a container that asks for a whole card's memory gets all of its cores (D-08)
    mlu_default_cores  a container that names only the count of MLUs gets whole cards' cores (D-46)
    facts_of           what nodes say of their cards
    """

    exclusive_cores: bool = True
    mlu_default_cores: bool = False
    facts_of: FactsOf = know_no_node
