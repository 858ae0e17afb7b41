"""YAML nested so deep that its loader would end the process."""

import pytest

from gpuloom.wire.device_config import decode_sections
from gpuloom.wire.errors import WireError
from gpuloom.wire.yamldepth import DEEPEST_YAML, refuse_deep


def nest(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_what_is_nested_deeper_is_refused() -> None:
    refuse_deep(nest(DEEPEST_YAML))
    with pytest.raises(RecursionError, match="nested deeper than 500 levels"):
        refuse_deep(nest(100_000))


def test_what_is_no_yaml_is_left_to_the_loader() -> None:
    refuse_deep(b"a: [")


def test_a_device_configuration_of_brackets_is_an_error_and_no_crash() -> None:
    with pytest.raises(WireError, match="nested deeper"):
        decode_sections(nest(100_000))
