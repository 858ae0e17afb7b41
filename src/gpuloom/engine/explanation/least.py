"""The least amount that is enough, found by trying."""

from collections.abc import Callable, Generator


def find_least(is_enough: Callable[[int], bool], least: int, most: int) -> Generator[None, None, int]:
    """Find in steps an amount that is enough where one less is not; ``most`` is enough, and mostly nothing less is."""
    tried = most - 1
    while least < most:
        yield
        if is_enough(tried):
            most = tried
        else:
            least = tried + 1
        tried = (least + most) // 2
    return most
