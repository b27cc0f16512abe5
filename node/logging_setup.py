"""Where log lines go: stderr or a rotated file; never stdout, which belongs to results and protocols.

Called once, first thing, by every entry point.  Light to import: the stdio gateway uses it.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import structlog

LOG_FILE_BYTES = 10 * 1024 * 1024
LOG_FILES = 5
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_to_stderr(level: str) -> None:
    """Send the lines of structlog to stderr, as `key=value` text.

    Args:
        level: one of `LEVELS`; anything else counts as "info".
    """
    structlog.configure(
        processors=[
            *_common(),
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS.get(level, logging.INFO)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def log_everything(level: str, file: Path | None) -> None:
    """Send the lines of structlog and of libraries to a file or to stderr: as JSON, for people on a terminal.

    Args:
        level: one of `LEVELS`; libraries are heard from "warning" on.
        file: rotated at 10 MB, 5 kept; None for stderr.
    """
    from logging.handlers import RotatingFileHandler

    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        handler = RotatingFileHandler(
            file, maxBytes=LOG_FILE_BYTES, backupCount=LOG_FILES - 1, encoding="utf-8", delay=True
        )
    for_people = file is None and sys.stderr.isatty()
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer()
            if for_people
            else structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        foreign_pre_chain=_common(),
    )
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("node", "mesh", "mcp_gateway"):
        logging.getLogger(name).setLevel(LEVELS[level])
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _common() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
