"""Every bound of the system in one place, with the reason where one is not obvious.

Sizes are bytes of UTF-8 unless the name says otherwise.
"""

from __future__ import annotations

from typing import Final

CONTENT_BYTES: Final = 64 * 1024
CONTENT_ADVISED_CHARS: Final = 1_500
INTEREST_BYTES: Final = 8 * 1024
QUERY_BYTES: Final = 8 * 1024
TAGS: Final = 32
TAG_CHARS: Final = 64
TITLE_CHARS: Final = 128
PROJECT_CHARS: Final = 128
AGENT_CHARS: Final = 128
IDEMPOTENCY_KEY_CHARS: Final = 128
DERIVED_FROM: Final = 64
FILTER_ITEMS: Final = 64

BEACONS_PER_AGENT: Final = 1_000
OPEN_SESSIONS_PER_AGENT: Final = 100
BEACON_TTL_S: Final = 30 * 24 * 3600
BEACON_TTL_MAX_S: Final = 365 * 24 * 3600
SESSION_IDLE_S: Final = 24 * 3600

RECALL_K: Final = 100
PAGE: Final = 500
RESULT_BYTES: Final = 20_000
RESULT_BYTES_MAX: Final = 45_000  # clients put results over about 50,000 characters aside unread
ENTRY_CHARS: Final = 2_000  # one entry's content is cut here, and says so

HTTP_BODY_BYTES: Final = 1024 * 1024
BULK_BODY_BYTES: Final = 4 * 1024 * 1024
STDIO_LINE_BYTES: Final = 1024 * 1024
BULK_CELLS: Final = 256

SCENE_PARTS: Final = 1_000  # events of one consolidation: 10 million memories in scenes
SCENE_LEAST: Final = 3  # memories in a scene

NATS_MESSAGE_BYTES: Final = 512 * 1024  # body and headers; the server cuts the connection at 1 MiB
EVENT_BYTES: Final = 256 * 1024  # header and payload of one event
PAGE_EVENTS_BYTES: Final = 384 * 1024  # events in one live message or range page, before framing
INBOUND_PULLS: Final = 3

RATE_PER_KEY_PER_S: Final = 500
RATE_BURST: Final = 1_000
CALLS_AT_ONCE: Final = 1_024  # under way in one peer: about 5 s of embedding on two cores
CALLS_AT_ONCE_PER_KEY: Final = 128  # two gateways of one agent, each with 64 calls on their way
REMOTE_CLOCK_LEAD_MS: Final = 500
