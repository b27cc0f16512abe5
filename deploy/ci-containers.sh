#!/bin/sh
# Build the image and break a mesh of containers, each fault once, then one of processes with those faults that need it:
# a part of continuous integration, at most 15 and 5 minutes.
#
# Where no Docker engine answers, one is installed (Debian, Ubuntu; as root), runs below a directory of its own, and is
# ended with the tests.  Fails where it cannot: nothing here is ever skipped.
set -eu
cd "$(dirname "$0")/.."

engine=
own=
end() {
    code=$?
    if [ -n "$engine" ]; then
        kill "$(cat "$own/pid")" 2>/dev/null || true
        wait "$engine" 2>/dev/null || true
        rm -rf "$own"
    fi
    exit "$code"
}
trap end EXIT
trap 'exit 130' INT TERM

need() {
    missing=
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "Installing$missing."
    apt-get update >/dev/null
    # shellcheck disable=SC2086 - a list
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $missing >/dev/null
}

if ! docker info >/dev/null 2>&1; then
    need docker.io iptables debootstrap
    own=$(mktemp -d)
    dockerd --data-root "$own/data" --exec-root "$own/exec" --pidfile "$own/pid" \
        --host unix:///var/run/docker.sock >"$own/log" 2>&1 &
    engine=$!
    tries=0
    until docker info >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 60 ] || ! kill -0 "$engine" 2>/dev/null; then
            tail -20 "$own/log" >&2
            echo "error: dockerd does not start here. The container part of the tests needs it." >&2
            exit 1
        fi
        sleep 0.5
    done
fi

make image
make chaos-smoke
timeout 600 make chaos SCENARIO=processes SECONDS=0
