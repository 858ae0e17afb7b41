"""Quiet logs: a replay of a thousand clusters says much."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet_logs(restored_logs: None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
