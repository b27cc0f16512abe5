"""Where things lie: configuration, the settings file, the data directory, the key of this user.

The order is the same for every command: a command line option, a `HYPHAE_*` variable, the settings file,
a default.  Only look-ups here, no validation (see `settings`) and no writing.  Light to import: the stdio
gateway uses it, so no pydantic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcp_gateway.authentication import KEY_FILE_VARIABLE, KEY_VARIABLE, TOKEN_FILE, find_key
from proto.errors import Invalid

SETTINGS_FILE = "hyphae.toml"
DATA_DIR_FILE = "data-dir"
CLIENT_KEYS = "keys"


def config_dir(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the configuration directory: given, else `HYPHAE_CONFIG_DIR`, else the user's usual one."""
    if given is not None:
        return absolute(given)
    if environ.get("HYPHAE_CONFIG_DIR"):
        return absolute(Path(environ["HYPHAE_CONFIG_DIR"]))
    import platformdirs

    return Path(platformdirs.user_config_dir("hyphae", appauthor=False))


def settings_file(environ: Mapping[str, str], config: Path) -> Path:
    """Return the path of the settings file, whether or not it exists."""
    named = environ.get("HYPHAE_CONFIG")
    return absolute(Path(named)) if named else config / SETTINGS_FILE


def read_settings_file(environ: Mapping[str, str], config: Path) -> dict[str, Any]:
    """Return what the settings file says; nothing when the default one is absent.

    Raises:
        Invalid: it is no TOML, or `HYPHAE_CONFIG` names a file that cannot be read.
    """
    path = settings_file(environ, config)
    try:
        if not path.exists() and not environ.get("HYPHAE_CONFIG"):
            return {}
        import tomllib

        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise Invalid(f"the settings file {path} cannot be read: {e.strerror}.") from e
    except ValueError as e:  # not UTF-8, or not TOML
        raise Invalid(f"the settings file {path} is not TOML: {e}.") from e


def plain_setting(name: str, environ: Mapping[str, str], from_file: Mapping[str, Any]) -> str | None:
    """Return one text setting without validation: the variable, else the settings file, else None."""
    value = environ.get(f"HYPHAE_{name.upper()}") or from_file.get(name)
    return str(value) if value else None


def default_data_dir() -> Path:
    """Return the user's usual place for data."""
    import platformdirs

    return Path(platformdirs.user_data_dir("hyphae", appauthor=False))


def data_dir(
    environ: Mapping[str, str], config: Path, from_file: Mapping[str, Any], given: Path | None = None
) -> Path:
    """Return the data directory.

    The order: given, `HYPHAE_DATA_DIR`, the settings file, the one line of `<config>/data-dir`, the default.
    """
    named = given or plain_setting("data_dir", environ, from_file) or _one_line(config / DATA_DIR_FILE)
    return absolute(Path(named)) if named else default_data_dir()


def configured_key(
    environ: Mapping[str, str], config: Path, from_file: Mapping[str, Any]
) -> Callable[[], str] | None:
    """Return a function that reads this user's key anew, or None when no key is configured at all.

    The order: `HYPHAE_API_KEY`, the file named by `HYPHAE_API_KEY_FILE`, `<config>/token`.  The function
    raises `Unauthenticated` when what is configured holds no key.
    """
    file = plain_setting("api_key_file", environ, from_file)
    given = {n: v for n, v in ((KEY_VARIABLE, environ.get(KEY_VARIABLE)), (KEY_FILE_VARIABLE, file)) if v}
    if not given and not (config / TOKEN_FILE).exists():
        return None
    return lambda: find_key(given, config)


def named_file(text: str | None) -> str | None:
    """Return the path of a file that a setting names, `~` resolved, if it does."""
    return None if text is None else str(absolute(Path(text)))


def web_url(host: str, port: int, *, tls: bool) -> str:
    """Return the address of a peer's HTTP surface as it is shown."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def absolute(path: Path) -> Path:
    """Return the path from the root, `~` resolved, symbolic links kept as the user wrote them."""
    return Path(os.path.abspath(path.expanduser()))  # symbolic links stay as the user wrote them


def _one_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
