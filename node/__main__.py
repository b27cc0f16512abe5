"""The entry point of `hyphae` and `python -m node`.

`hyphae mcp serve` is taken before anything else is imported: an editor waits for it at each start.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code (table in `node.cli.failures`)."""
    args = sys.argv[1:] if arguments is None else arguments
    os.umask(0o077)
    os.environ["ORT_DISABLE_TELEMETRY"] = (
        "1"  # ONNX Runtime reports home otherwise; it looks when it is loaded
    )
    if args[:2] == ["mcp", "serve"]:
        from node.cli import mcp_serve

        options = mcp_serve.parse(args[2:])
        if options is not None:
            return mcp_serve.serve(options)
    from node.cli.root import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
