#!/bin/sh
# Make a base image where no registry can be reached: Debian with Python, about a minute and 270 MB.
#   deploy/base-image.sh [NAME]     NAME is hyphae-base:local unless given
# Needs root, debootstrap, a Docker engine, and a Debian mirror (the one that apt uses; MIRROR names another).
set -eu

name=${1:-hyphae-base:local}
suite=${SUITE:-bookworm}
if docker image inspect "$name" >/dev/null 2>&1; then
    echo "$name is there."
    exit 0
fi
command -v debootstrap >/dev/null || {
    echo "error: debootstrap is needed to make a base image. On Debian or Ubuntu: apt-get install debootstrap" >&2
    exit 1
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# shellcheck disable=SC2086 - MIRROR is one word or none
debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" ${MIRROR:-} >"$root.log" 2>&1 || {
    tail -5 "$root.log" >&2
    echo "error: debootstrap failed; $root.log has the whole of what it said." >&2
    exit 1
}
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root.log"
tar -C "$root" -c . | docker import --change 'CMD ["python3"]' - "$name" >/dev/null
echo "$name is made of $suite."
