"""Small things that every kind of cluster needs: is a peer there, and doing several things at once."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import urlsplit

ASK_S = 3.0
T = TypeVar("T")
R = TypeVar("R")


def serves(url: str) -> bool:
    """Return whether a peer answers /healthz."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ASK_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def for_each(step: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Take the step for all items at once; return the results in order, or raise the first failure at the end."""
    wanted = list(items)
    if not wanted:
        return []
    with ThreadPoolExecutor(len(wanted)) as pool:
        return [future.result() for future in [pool.submit(step, item) for item in wanted]]
