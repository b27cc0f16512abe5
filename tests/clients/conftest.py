"""The peer that all clients speak to: `hyphae up`, with the real model, as its user starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hyphae_command import Home, Up, running_up
from tests.support.places import short_directory


@pytest.fixture(scope="session")
def up() -> Iterator[Up]:
    with short_directory() as root, running_up(Home(root)) as up:
        yield up
