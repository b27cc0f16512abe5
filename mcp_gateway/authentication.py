"""Where a key comes from: the headers of a request, or the environment and files of a stdio process.

The duty: find the one key that a caller presents and refuse what cannot be one.  Whether the mesh knows the
key is for the peer to say.  A key is never shown, logged or part of an error text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proto.errors import Invalid, Unauthenticated
from proto.ids import format_base32, parse_base32

KEY_VARIABLE = "HYPHAE_API_KEY"
KEY_FILE_VARIABLE = "HYPHAE_API_KEY_FILE"
TOKEN_FILE = "token"  # noqa: S105 - the name of a file
KEY_FILE_BYTES = 4096
SECRET_BYTES = 32
HOW_TO_GET_ONE = "`hyphae key issue` makes one."

_KEY = re.compile(r"hyp_([a-z2-7]{8,16})_([a-z2-7]{52})")


@dataclass(frozen=True, slots=True)
class KeyText:
    """A key as it is written: `hyp_<id>_<secret>`.

    Args:
        id: 8 to 16 characters of base32, no secret.
        secret: 32 bytes, the seed of an Ed25519 key.
    """

    id: str
    secret: bytes = field(repr=False)

    def format(self) -> str:
        """Return the key as its owner keeps it: a secret."""
        return f"hyp_{self.id}_{format_base32(self.secret)}"


def parse_key(text: str) -> KeyText:
    """Return the parts of a key.

    Raises:
        Unauthenticated: the text is no key; it is not shown.
    """
    found = _KEY.fullmatch(text)
    if found is not None:
        try:
            key = KeyText(found[1], parse_base32(found[2], "key"))
        except Invalid:
            raise _no_key(text) from None
        if len(key.secret) == SECRET_BYTES and key.format() == text:
            return key
    raise _no_key(text)


def _no_key(text: str) -> Unauthenticated:
    return Unauthenticated(
        f"what was given is no key: {len(text)} characters, not hyp_<id>_<secret>. "
        f"Copy it whole; {HOW_TO_GET_ONE}"
    )


def key_of_headers(hyphae_key: Sequence[str], authorization: Sequence[str]) -> str | None:
    """Return the key of a request, or None when it has none.

    Args:
        hyphae_key: all values of `x-hyphae-key`.
        authorization: all values of `Authorization`; only the scheme Bearer carries a key.

    Raises:
        Unauthenticated: a value is no key, or two different keys were given.
    """
    given = [value.strip() for value in hyphae_key]
    for value in authorization:
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            given.append(rest.strip())
    keys = set(given)
    if not keys:
        if authorization:
            raise Unauthenticated("the Authorization header is not Bearer. Send Authorization: Bearer <key>.")
        return None
    if len(keys) > 1:
        raise Unauthenticated("two different keys were given. Send one, as x-hyphae-key or as Bearer.")
    key = keys.pop()
    parse_key(key)
    return key


def find_key(environment: Mapping[str, str], config_dir: Path) -> str:
    """Return the key of a stdio process: `HYPHAE_API_KEY`, else the file it names, else `token`.

    Args:
        environment: variables of the process; a blank value counts as unset.
        config_dir: holds `token` when neither variable is set.

    Raises:
        Unauthenticated: there is none, its file cannot be read, or it is no key; the text says where.
    """
    direct = environment.get(KEY_VARIABLE, "").strip()
    if direct:
        return _checked(direct, KEY_VARIABLE)
    named = environment.get(KEY_FILE_VARIABLE, "").strip()
    path = Path(named).expanduser() if named else config_dir / TOKEN_FILE
    try:
        with path.open("rb") as file:
            data = file.read(KEY_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise Unauthenticated(_missing(path, named)) from None
    except (OSError, ValueError) as error:
        raise Unauthenticated(f"the key file {path} cannot be read: {type(error).__name__}.") from None
    return _checked(data.decode("utf-8", "replace").strip(), str(path))


def _missing(path: Path, named: str) -> str:
    if named:
        return f"{KEY_FILE_VARIABLE} names {path}, which does not exist. {HOW_TO_GET_ONE}"
    return (
        f"no key: {KEY_VARIABLE} and {KEY_FILE_VARIABLE} are not set and {path} does not exist. "
        "Run `hyphae init`, or set one of them in the client's entry."
    )


def _checked(text: str, where: str) -> str:
    try:
        parse_key(text)
    except Unauthenticated:
        size = f"{len(text)} characters" if text else "nothing"
        raise Unauthenticated(
            f"{where} holds {size}, not a key hyp_<id>_<secret>. Copy it whole; {HOW_TO_GET_ONE}"
        ) from None
    return text
