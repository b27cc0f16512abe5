#!/bin/sh
# Build the image: `make image`, or BASE_IMAGE=... IMAGE=... deploy/build-image.sh
#
# What requirements-runtime.lock pins is fetched out here, with pip as this machine has it configured, into
# build/wheelhouse; in the image pip installs from there, offline, and checks the same hashes again.
set -eu
cd "$(dirname "$0")/.."

image=${IMAGE:-hyphae-mesh:local}
base=${BASE_IMAGE:-python:3.12-slim}
python=${PYTHON:-.venv/bin/python}
wheels=build/wheelhouse
own=hyphae-base:local

docker info >/dev/null 2>&1 || {
    echo "error: no Docker engine answers. Start one and try again; deploy/README.md says how." >&2
    exit 1
}
if ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull --quiet "$base" 2>/dev/null; then
    if [ -n "${BASE_IMAGE:-}" ]; then
        echo "error: the image $base is not here and cannot be pulled. Nothing was built." >&2
        exit 1
    fi
    echo "$base cannot be pulled; $own is used instead."
    deploy/base-image.sh "$own"
    base=$own
fi

# The wheels have to fit the Python of the base, not ours.
facts=$(docker run --rm --network none --entrypoint python3 "$base" -c \
    'import platform, sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2], platform.machine(), *platform.libc_ver())')
# shellcheck disable=SC2086 - five words
set -- $facts
version=$1 machine=$2 libc=${3:-unknown} libc_version=${4:-0}
case $version in 3.11 | 3.12 | 3.13) ;; *)
    echo "error: $base has Python $version; 3.11, 3.12 or 3.13 is needed." >&2
    exit 1
    ;;
esac
[ "$libc" = glibc ] || { echo "error: $base has no glibc; the model and the index need it." >&2; exit 1; }
platforms="--platform manylinux2014_$machine"
minor=17
while [ "$minor" -le "${libc_version#2.}" ]; do
    platforms="$platforms --platform manylinux_2_${minor}_$machine"
    minor=$((minor + 1))
done

rm -rf "$wheels"
mkdir -p "$wheels"
echo "Fetching wheels for Python $version on $machine."
# shellcheck disable=SC2086 - a list of options
"$python" -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
    --python-version "$version" $platforms --dest "$wheels" --requirement deploy/requirements-runtime.lock
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$wheels" .
docker build --quiet --build-arg BASE_IMAGE="$base" --file deploy/Dockerfile --tag "$image" . >/dev/null
echo "$image is built on $base: $(docker image inspect --format '{{.Size}}' "$image" | awk '{ printf "%d MB", $1 / 1e6 }')."
