"""A small pool of read-only connections: queries run on its threads, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from node import database
from proto.errors import Unavailable

T = TypeVar("T")


class ReadPool:
    """Runs short reads.

    Args:
        path: the database file.
        threads: reads at once; more wait.
    """

    def __init__(self, path: Path | str, threads: int = 3) -> None:
        self._path = path
        self._local = threading.local()
        self._open: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """Return `query(connection)`, run on a reader thread; it sees every commit that was acknowledged.

        Raises:
            Corrupted: the database is damaged where the query reads; Unavailable: the disk does not answer.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, query)

    def _run(self, query: Callable[[apsw.Connection], T]) -> T:
        try:
            return query(self._connection())
        except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
            raise database.damaged(self._path, error) from error
        except (apsw.IOError, apsw.CantOpenError) as error:
            raise Unavailable(f"the log cannot be read: {error}.") from error

    def _connection(self) -> apsw.Connection:
        found: apsw.Connection | None = getattr(self._local, "db", None)
        if found is None:
            found = self._local.db = database.open_reader(self._path)
            with self._lock:
                self._open.append(found)
        return found

    def close(self) -> None:
        """Wait for running reads, then close every connection."""
        self._executor.shutdown(wait=True)
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()
