"""Where log lines of a process go and how they look. Libraries of gpuloom log through structlog and set nothing up."""

import logging
import sys
from typing import Any, Literal

import structlog

LogForm = Literal["json", "console"]


def configure_logs(form: LogForm, *, level: int = logging.INFO) -> None:
    """Send log lines of at least ``level`` to stderr, as JSON or for people's eyes."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if form == "json" else structlog.dev.set_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def configure_quiet() -> None:
    """Keep log lines back: a command that answers people says what is wrong itself."""
    configure_logs("console", level=logging.CRITICAL)
