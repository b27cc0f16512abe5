"""get_scene and list_scenes.  Scenes are not made yet, and these say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.service.context import Call, PeerContext
from proto.errors import Invalid, NotFound


class SceneOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def get_scene(self, call: Call) -> Mapping[str, Any]:
        """Return a scene.  Until scenes are made, none is found."""
        call.principal.require("read")
        raise NotFound(
            f"no scene {call.args['scene_id'][:60]} is known here; list_scenes shows which there are."
        )

    async def list_scenes(self, call: Call) -> Mapping[str, Any]:
        """Return the scenes that the caller may read: none yet."""
        p = call.principal
        p.require("read")
        p.scope(call.args.get("project"))
        if "cursor" in call.args:
            raise Invalid("cursor is not one that list_scenes gave; leave it out to begin at the start.")
        return {"scenes": []}
