"""Write the lock files of the client tests anew: `python -m tests.clients.pin`, with npm and uv on the path.

The duty: exact versions and hashes for what package.json and the .in files ask for, and no address of any
registry, so that everybody installs from the one that is configured.

package.json overrides vite, which the Inspector brings and the CLI never loads: 8.4.0 names an optional
package that no registry has, and `npm ci` refuses the lock.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE_LOCK = HERE / "package-lock.json"
NPM = ("npm", "install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved")
UV = ("uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--universal")
ADDRESSES = ("funding", "resolved")  # members of an entry that hold addresses


def without_addresses(lock: dict[str, Any]) -> dict[str, Any]:
    """Return a package lock without the members that name hosts; npm needs none of them."""
    entries = {
        path: {name: value for name, value in entry.items() if name not in ADDRESSES}
        for path, entry in lock["packages"].items()
    }
    return {**lock, "packages": entries}


def main() -> None:
    subprocess.run(NPM, cwd=HERE, check=True)
    lock = without_addresses(json.loads(PACKAGE_LOCK.read_text()))
    PACKAGE_LOCK.write_text(json.dumps(lock, indent=2) + "\n")
    for wanted in sorted(HERE.glob("requirements-*.in")):
        output = wanted.with_suffix(".lock").name
        version = ("--python-version", "3.11")
        subprocess.run([*UV, *version, wanted.name, "--output-file", output], cwd=HERE, check=True)


if __name__ == "__main__":
    main()
