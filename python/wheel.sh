#!/usr/bin/env bash
# Builds the wheel that carries the command of a platform, without a network:
#
#     python/wheel.sh FOLDER [GOOS GOARCH]
#
# Needs Go, and a Python with setuptools, and wheel where setuptools is older than 70.1: PYTHON, else python3, else /usr/bin/python3. Prints the wheel's path. The same source gives the same bytes.
# The variable FEDSIM_COMMAND names a command that is built already.
set -euo pipefail
umask 022 # a wheel has the modes of its files
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ $# == 1 || $# == 3 ]] || { printf 'usage: python/wheel.sh FOLDER [GOOS GOARCH]\n' >&2; exit 2; }
able() { "$1" -c '
try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel' 2>/dev/null; }
for python in ${PYTHON:-python3 /usr/bin/python3}; do
	if able "$python"; then break; fi
	python=
done
if [[ -z $python ]]; then
	printf '%s has no setuptools with bdist_wheel: %s -m pip install setuptools wheel, apt-get install python3-setuptools python3-wheel, or name another Python with PYTHON\n' \
		"${PYTHON:-python3}" "${PYTHON:-python3}" >&2
	exit 1
fi

mkdir -p "$1"
out=$(cd "$1" && pwd)
goos=${2:-$(go env GOOS)} goarch=${3:-$(go env GOARCH)}

case $goos/$goarch in
linux/amd64) platform=manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64 ;;
linux/arm64) platform=manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64 ;;
darwin/amd64) platform=macosx_12_0_x86_64 ;;
darwin/arm64) platform=macosx_12_0_arm64 ;;
windows/amd64) platform=win_amd64 ;;
windows/arm64) platform=win_arm64 ;;
*) printf 'there is no wheel for %s/%s\n' "$goos" "$goarch" >&2; exit 2 ;;
esac
name=fedsim
[[ $goos != windows ]] || name=fedsim.exe

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R python/pyproject.toml python/setup.py python/README.md python/src "$work"
find "$work" -name __pycache__ -prune -exec rm -rf {} +

if [[ -n ${FEDSIM_COMMAND:-} ]]; then
	mkdir -p "$work/src/fedsim/bin"
	cp "$FEDSIM_COMMAND" "$work/src/fedsim/bin/$name"
	chmod 755 "$work/src/fedsim/bin/$name"
else
	version=github.com/fedsim/fedsim/internal/version
	revision=$(git rev-parse HEAD 2>/dev/null || true)
	modified=$([[ -z $(git status --porcelain 2>/dev/null) ]] || echo true)
	CGO_ENABLED=0 GOOS=$goos GOARCH=$goarch go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X $version.revision=$revision -X $version.modified=$modified" -o "$work/src/fedsim/bin/$name" ./cmd/fedsim
fi

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)
export SOURCE_DATE_EPOCH FEDSIM_WHEEL_PLATFORM=$platform
cd "$work"
chmod -R u=rwX,go=rX src
wheel=$("$python" -c '
import contextlib, sys
from setuptools import build_meta
with contextlib.redirect_stdout(sys.stderr):
    name = build_meta.build_wheel(sys.argv[1])
print(name)' "$out" 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
printf '%s\n' "$out/$wheel"
