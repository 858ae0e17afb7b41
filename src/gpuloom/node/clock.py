"""The type of what lets time pass, so that tests need not wait for it."""

from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""
