#!/usr/bin/env bash
# Makes a release of the last commit twice, in two clones, compares the bytes, installs what came out and runs it:
#
#     tools/release/check.sh          for this platform, without wheels (python/check.sh makes them)
#     tools/release/check.sh whole    for all platforms, with wheels; a third time for this platform with an empty build cache;
#                                     and go install from a tag
#
# Needs Go, git and tar; dpkg for the Debian package; root to start the image, in a chroot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD mode=${1:-quick}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

python=
for p in ${PYTHON:-} python3 /usr/bin/python3; do
	if [[ -z $python ]] && "$p" -c 'import ensurepip, numpy, setuptools, wheel' 2>/dev/null; then python=$p; fi
done
flags=(-host -wheels=false)
if [[ $mode == whole ]]; then
	flags=()
	[[ -n $python ]] || { printf 'wheels need a Python 3 with venv, numpy, setuptools and wheel\n' >&2; exit 1; }
	export PYTHON=$python
fi

# A throwaway key.
go build -C tools -o "$work/tool" ./release
go run -C tools aead.dev/minisign/cmd/minisign -G -W -p "$work/key.pub" -s "$work/key" >/dev/null
make_in() { # CLONE TO [FLAG...]
	git clone -q "$root" "$work/$1"
	(cd "$work/$1" && "$work/tool" -to "$work/$2" -key "$work/key" "${@:3}")
}
make_in first of-first "${flags[@]}"
(umask 077 && export TZ=Asia/Tokyo LC_ALL=C && make_in second/elsewhere of-second "${flags[@]}")
diff -r "$work/of-first" "$work/of-second"
if [[ $mode == whole ]]; then
	GOCACHE=$work/cache make_in third of-third -host -wheels=false
	for file in "$work"/of-third/fedsim*; do
		cmp "$file" "$work/of-first/${file##*/}"
	done
fi
printf 'made twice: the same bytes\n'

cd "$work/of-first"
sha256sum --quiet --ignore-missing -c SHA256SUMS
os=$(go env GOOS) arch=$(go env GOARCH)
archive=$(ls fedsim_*_"$os"_"$arch".tar.gz)
mkdir "$work/archive"
tar -xzf "$archive" -C "$work/archive"
fedsim=$(echo "$work"/archive/*/fedsim) fednode=$(echo "$work"/archive/*/fednode)

# The list is signed, and has every file and the commands in the archives.
go run -C "$root/tools" aead.dev/minisign/cmd/minisign -V -q -m "$PWD/SHA256SUMS" -p "$work/key.pub"
listed() { grep -q "^$(sha256sum "$1" | cut -d' ' -f1)  " SHA256SUMS; }
for file in fed* "$fedsim" "$fednode"; do
	listed "$file"
done

try() { # a command of each kind of file, in an empty folder
	mkdir -p "$work/run"
	(cd "$work/run" && "$1" run --data synthetic:small-200 --rounds 2 --baselines quick --name "$2" >/dev/null 2>&1)
	printf '%s: %s\n' "$2" "$("$1" version)"
}
try "$fedsim" archive
"$fednode" --version

if command -v dpkg >/dev/null && [[ $os == linux ]]; then
	package=$(ls fedsim_*_"$arch".deb)
	mkdir -p "$work/deb/var/lib/dpkg"/{info,updates,triggers}
	: >"$work/deb/var/lib/dpkg/status"
	dpkg --force-not-root --force-bad-path --log="$work/dpkg.log" --root="$work/deb" -i "$package" >/dev/null
	try "$work/deb/usr/bin/fedsim" package
	"$work/deb/usr/bin/fednode" --version
	(cd "$work/deb" && md5sum --quiet -c var/lib/dpkg/info/fedsim.md5sums)
	test -s "$work/deb/usr/share/man/man1/fednode.1.gz"
fi

if [[ $os == linux ]]; then
	mkdir "$work/oci" "$work/image"
	tar -xf fednode_*_oci.tar -C "$work/oci"
	(cd "$work/oci/blobs/sha256" && for f in *; do printf '%s  %s\n' "$f" "$f"; done | sha256sum --quiet -c)
	# The configuration of this platform, then the manifest that names it. An index names platforms, too.
	manifest=$(grep -l '"rootfs"' "$work"/oci/blobs/sha256/* | xargs grep -l "\"architecture\":\"$arch\"" | sed -n 1p)
	manifest=$(grep -l "${manifest##*/}" "$work"/oci/blobs/sha256/* | sed -n 1p)
	layer=$(grep -o '"layers":.*' "$manifest" | grep -o 'sha256:[0-9a-f]*' | sed -n 1p)
	tar -xzf "$work/oci/blobs/sha256/${layer#sha256:}" -C "$work/image"
	test -d "$work/image/state"
	if [[ $(id -u) == 0 ]]; then
		printf 'image: %s\n' "$(chroot "$work/image" /fednode --version)"
	fi
fi

if [[ $mode == whole ]]; then
	"$python" -m venv --system-site-packages "$work/env"
	for wheel in fedsim-*.whl; do # the wheel of this platform, by its tags
		if "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel" 2>/dev/null; then installed=$wheel; fi
	done
	printf 'installed %s\n' "$installed"
	try "$work/env/bin/fedsim" wheel
	FEDSIM='' "$work/env/bin/python" -c 'import fedsim; print("wheel:", fedsim.explain("ssp-c")["name"])'
	listed "$(echo "$work"/env/lib/python3*/site-packages/fedsim/bin/fedsim)"

	# From a tag, as from the forge: git takes the clone in its place.
	tag=v0.0.1-check.g$(git -C "$work/first" rev-parse --short=12 HEAD) # the module cache keeps what a tag was
	git -C "$work/first" -c user.name=check -c user.email=check@example.org tag -a -m check "$tag"
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$work/first.insteadOf GIT_CONFIG_VALUE_0=https://github.com/fedsim/fedsim
	for name in fedsim fednode; do
		(cd "$work/run" && GOPRIVATE=github.com/fedsim/fedsim GOFLAGS=-modcacherw GOBIN=$work/bin go install "github.com/fedsim/fedsim/cmd/$name@$tag")
		"$work/bin/$name" version
	done
fi
