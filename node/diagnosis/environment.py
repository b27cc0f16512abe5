"""The machine and the settings: Python, system, `HYPHAE_*` variables, the settings file, files, ports."""

from __future__ import annotations

import platform
import resource
import sys
from collections.abc import Sequence

from node import processes
from node.data_directory import MeshDirectory
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.surroundings import Surroundings
from node.locations import settings_file
from node.version import version
from proto.errors import Invalid

PYTHONS = ((3, 11), (3, 13))
SYSTEMS = ("linux", "darwin")
HANDLES_MIN = 1_024  # below, a peer has room for some hundred connections only
PORT = 4974
HOST = "127.0.0.1"


def python(_: Surroundings) -> Sequence[Finding]:
    """Look at the version of Python and the system."""
    return [judge_python(sys.version_info[:2], sys.platform, version())]


def judge_python(running: tuple[int, ...], system: str, installed: str) -> Finding:
    """Return the verdict on a version of Python, a system as `sys.platform` names it, and ourselves."""
    shown = f"Python {platform.python_version()} on {platform.system()}, hyphae-mesh {installed}"
    if system not in SYSTEMS:
        return problem(f"{shown}: only Linux and macOS are supported.", "On Windows run it inside WSL.")
    if running < PYTHONS[0]:
        return problem(f"{shown}: Python 3.11 to 3.13 is needed.", "make setup PYTHON=python3.12")
    if running > PYTHONS[1]:
        return warning(f"{shown}: newer than 3.13, which nobody has tested.", "make setup PYTHON=python3.13")
    if installed == "0":
        return warning(f"{shown}: it runs from files that were never installed.", "make setup")
    return well(f"{shown}.")


def settings(s: Surroundings) -> Sequence[Finding]:
    """Look at the settings file and at every `HYPHAE_*` variable."""
    from node.settings import flaws, unknown_variables

    path = settings_file(s.environ, s.config)
    if s.settings_flaw is not None:
        return [problem(_sentence(s.settings_flaw), f"Mend {path}, or move it away; see docs/settings.md.")]
    found = [problem(_sentence(text), "See docs/settings.md.") for text in flaws(s.environ, s.config)]
    found += [
        warning(text, f"unset {text.partition(' ')[0]}, or correct its name; see docs/settings.md.")
        for text in unknown_variables(s.environ)
    ]
    where = f"{path}" if s.from_file else f"no settings file ({path} is not there)"
    return found or [well(f"Settings are valid; {where}.")]


def open_files(_: Surroundings) -> Sequence[Finding]:
    """Look at how many files a process of this user may open; a peer raises its own limit to the hard one."""
    return [judge_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1])]


def judge_open_files(hard: int) -> Finding:
    """Return the verdict on the hard limit of open files."""
    if hard == resource.RLIM_INFINITY:
        return well("Open files are not limited.")
    if hard >= HANDLES_MIN:
        return well(f"A peer may open {hard} files.")
    return warning(
        f"A peer may open {hard} files only; below {HANDLES_MIN} it takes few connections at once.",
        "ulimit -Hn 16384 as the administrator, or LimitNOFILE=16384 in the service file.",
    )


def port(s: Surroundings) -> Sequence[Finding]:
    """Look whether somebody else has the ports that `hyphae up` would take."""
    if MeshDirectory(s.data).holder() is not None:
        return [well("`hyphae up` runs and has its ports.")]
    first = s.settings.http_port if s.settings else PORT
    host = s.settings.http_host if s.settings else HOST
    count = max(1, (s.settings.peers or 0) if s.settings else 0, len(s.peers))
    if first == 0:
        return [well("`hyphae up` takes free ports.")]
    for number in range(first, first + count):
        if number > 65535 or not processes.port_is_free(host, number):
            holder = processes.port_holder(number)
            return [
                warning(
                    f"Port {number} of {host}, which `hyphae up` would take, is taken by {holder}.",
                    s.command(f"hyphae up --http-port {first + 100 if first < 65000 else 0}"),
                )
            ]
    ports = f"Port {first} is" if count == 1 else f"Ports {first} to {first + count - 1} are"
    return [well(f"{ports} free for `hyphae up`.")]


def tls(s: Surroundings) -> Sequence[Finding]:
    """Look whether certificate and key of the peers can be used, and whether keys would travel in clear."""
    from node.server_tls import ServerTls, check_exposure, files_of

    named = s.settings
    if named is None:
        return [well("Not looked at, because a setting is wrong.")]
    try:
        files = files_of(named.tls_cert, named.tls_key)
        check_exposure(named.http_host, tls=files is not None, allow_plain_http=named.allow_plain_http)
        if files is None:
            return [well(f"Peers speak plain HTTP on {named.http_host}.")]
        ServerTls(files)
    except Invalid as error:
        text = error.message.replace(" Nothing was started.", "")
        return [problem(text, "See HYPHAE_TLS_CERT in docs/settings.md.")]
    return [well(f"Peers speak https with {files.certificate}.")]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text
