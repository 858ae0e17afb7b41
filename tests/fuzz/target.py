"""What is fuzzed: a door through which bytes of tenants, pods or nodes come in, and what it may answer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Form = Literal["text", "json", "yaml", "bytes"]


@dataclass(frozen=True, slots=True)
class Target:
    """One door.

    read          takes the bytes; it returns for good input and for input that is refused as declared, and raises else
    form          what most of its input looks like, for whoever changes it
    seeds         gives good input to begin with
    us_per_byte   how long a byte may take on a slow machine: what takes longer for longer input is found by it
    """

    name: str
    read: Callable[[bytes], None]
    form: Form
    seeds: Callable[[], Iterable[bytes]]
    us_per_byte: float = 3.0
