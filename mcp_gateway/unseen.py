"""Characters that cannot be seen, or that make others be seen otherwise: written as escapes where people read.

Pure.  For terminals and for error texts, which repeat what somebody sent.
"""

from __future__ import annotations

import re

# What a memory may hold and a terminal would obey or hide: C0 and C1 controls but for tab and line feed, marks
# and overrides of writing direction, characters without width, separators of lines, tags.
# Source: Unicode Technical Reports 36 and 55.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return text in which what could command a terminal, or deceive its reader, is written as an escape.

    Line feeds and tabs stay; `U+202E` becomes the six characters ``\\u202e``.
    """
    return UNSEEN.sub(lambda c: c[0].encode("unicode_escape").decode("ascii"), text)
