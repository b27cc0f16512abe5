"""The demo: three agents and a mesh of three peers play a short story, and every sentence of it is checked.

`python -m deploy.demo.story` plays it and ends with 0, or with 1 and a plain sentence at the first thing that
is not true.  However it ends, nothing of it is left, unless `--keep` asks for that.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from deploy.demo import act_crash, act_reading, act_sharing
from deploy.demo.checking import StoryFailed, claim
from deploy.demo.corpus import MEMORIES, NIGHT_SHIFT, read
from deploy.demo.http_wire import Refused, Unreachable
from deploy.demo.interrupts import Interrupts
from deploy.demo.mesh_under_test import MeshUnderTest, hyphae_program
from deploy.demo.stage import ASKER, PEERS, READER, WRITER, Clock, Stage
from deploy.demo.telling import WIDTH_MAX, Telling, format_ms, summary_line, wants_colour
from node.logging_setup import log_to_stderr
from proto.errors import HyphaeError

FAILED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the story; return the exit code."""
    options = _options(arguments)
    log_to_stderr("error")
    interrupts = Interrupts()
    interrupts.listen()
    stage: Stage | None = None
    kept = False
    try:
        try:
            with interrupts.held():
                root = Path(tempfile.mkdtemp(prefix="hyphae-demo-"))
                stage = _stage(root, interrupts, _telling(options.json))
            code = _perform(stage, keep=options.keep, as_json=options.json)
            kept = options.keep and bool(stage.mesh.ready)
            return code
        except KeyboardInterrupt:
            sys.stderr.write("\ninterrupted; stopping and removing everything\n")
            return INTERRUPTED
        except BrokenPipeError:  # nobody reads on, as after `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        finally:
            interrupts.end()
    finally:
        if stage is not None and not kept:
            _clean_up(stage)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.story", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead of the story")
    parser.add_argument(
        "--keep", action="store_true", help="leave the mesh running and say how to connect to it"
    )
    return parser.parse_args(arguments)


def _telling(as_json: bool) -> Telling:
    if as_json:
        return Telling(None)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    colour = wants_colour(sys.stdout.isatty(), os.environ)
    return Telling(sys.stdout, colour=colour, width=shutil.get_terminal_size((WIDTH_MAX, 24)).columns)


def _stage(root: Path, interrupts: Interrupts, telling: Telling) -> Stage:
    return Stage(telling, MeshUnderTest(root), interrupts, read(MEMORIES), read(NIGHT_SHIFT))


def _perform(stage: Stage, *, keep: bool, as_json: bool) -> int:
    """Play it and say how it ended."""
    clock = Clock()
    try:
        _play(stage)
        if keep:
            _tell_how_to_connect(stage)
        else:
            _curtain(stage)
    except (StoryFailed, Refused, Unreachable, HyphaeError) as error:
        if as_json:
            sys.stdout.write(summary_line({"ok": False, "problem": str(error)}) + "\n")
        stage.telling.ending(f"NOT TRUE: {error}", well=False)
        if keep and stage.mesh.ready:
            _tell_how_to_connect(stage)
        return FAILED
    stage.figures["total_ms"] = clock.ms()
    if as_json:
        figures = {n: round(v, 1) if n.endswith("_ms") else v for n, v in stage.figures.items()}
        sys.stdout.write(summary_line({"ok": True, **figures}) + "\n")
    stage.telling.ending(f"All of it was true. It took {clock.ms() / 1000:.1f} s.", well=True)
    return 0


def _play(stage: Stage) -> None:
    stage.telling.title(
        "HYPHAE: what one agent learns, the others hear",
        f"Tidewater is an invented payments-and-booking platform for small harbours. Its six coding agents "
        f"wrote {len(stage.memories)} memories: decisions, constraints and lessons. {READER} would like to "
        f"hear of one subject without asking, {WRITER} and the others store, {ASKER} has questions. Every "
        "sentence below is checked; the first that is not true ends the demo.",
    )
    forecast = act_sharing.look_ahead(stage)
    act_sharing.mesh_comes_up(stage)
    cast = act_sharing.agents_attach(stage, forecast)
    act_sharing.interest_is_placed(stage, cast)
    act_sharing.memories_are_stored(stage, cast)
    act_sharing.inbox_fills(stage, cast)
    act_reading.questions_are_answered(stage, cast)
    read_before = act_reading.reader_moves(stage, cast)
    act_crash.peer_dies(stage, cast)
    act_crash.interest_still_holds(stage, cast, read_before)
    act_crash.nothing_is_lost(stage)
    _tell_figures(stage)


def _tell_figures(stage: Stage) -> None:
    f = stage.figures
    stage.telling.step("In figures")
    stage.telling.table(
        [
            ("hyphae up -> three peers and NATS ready", format_ms(f["ready_ms"])),
            ("store over MCP, median", format_ms(f["store_ms"])),
            ("stored on peer-2 -> in the inbox on peer-1", format_ms(f["first_arrival_ms"])),
            ("bulk", f"{f['bulk_memories'] / f['bulk_ms'] * 1000:.0f} memories/s"),
            ("recall over MCP, median", format_ms(f["recall_ms"])),
            ("peer-2 killed -> ready again", format_ms(f["away_ms"])),
            ("memories on each peer", str(len(stage.node_ids))),
        ]
    )


def _curtain(stage: Stage) -> None:
    """Stop everything and look whether anything is left."""
    stage.telling.step("Everything stops")
    seen = stage.mesh.look_at_processes()
    clock = Clock()
    stage.close()
    stage.mesh.stop()
    stage.figures["stop_ms"] = clock.ms()
    left = stage.mesh.left_behind()
    claim(not left, f"this is left: {', '.join(left)}.")
    shutil.rmtree(stage.mesh.root)
    claim(not stage.mesh.root.exists(), f"{stage.mesh.root} cannot be removed.")
    stage.telling.say(
        f"hyphae up ended with exit code 0. None of its {len(seen)} processes is left (supervisor, "
        f"nats-server, {PEERS} peers, and peer-2 as it was before), and no file.",
        clock.ms(),
    )


def _tell_how_to_connect(stage: Stage) -> None:
    stage.close()
    mesh, program = stage.mesh, hyphae_program()
    key = mesh.root / f"{READER}.key"
    stage.figures |= {"directory": str(mesh.root), "peers": [mesh.url(n) for n in range(1, PEERS + 1)]}
    stage.telling.step("The mesh keeps running")
    stage.telling.table(
        [
            ("directory", str(mesh.root)),
            ("agent's key", str(key)),
            ("look", f"{program} status --data-dir {mesh.data}"),
            ("ask", f"HYPHAE_API_KEY_FILE={key} {program} recall --data-dir {mesh.data} 'payment retries'"),
            ("MCP client", f"{mesh.url(1)}/mcp with header x-hyphae-key: <the agent's key>"),
            ("stop", f"{program} down --data-dir {mesh.data} && rm -r {mesh.root}"),
        ]
    )


def _clean_up(stage: Stage) -> None:
    """Leave nothing, whatever has happened; quiet, and harmless when there is nothing to do."""
    with ExitStack() as last:  # called from the last to the first, whichever of them fails
        last.callback(shutil.rmtree, stage.mesh.root, ignore_errors=True)
        last.callback(stage.mesh.kill_everything)
        last.enter_context(suppress(StoryFailed))
        last.callback(stage.mesh.stop)
        last.callback(stage.close)


if __name__ == "__main__":
    sys.exit(main())
