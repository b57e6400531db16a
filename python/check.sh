#!/usr/bin/env bash
# Builds the wheel twice, installs it in a new environment without a network, and runs the tests against it.
# Needs Python 3 with numpy, pandas, pytest, setuptools and wheel. In CI, as root on Debian, missing packages are installed. Without a Python the check is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

able() { "$1" -c 'import ensurepip, numpy, pandas, pytest, setuptools, wheel' 2>/dev/null; }
find_python() {
	for python in ${PYTHON:-} python3 /usr/bin/python3; do
		if able "$python"; then return 0; fi
	done
	return 1
}
if ! find_python && [[ ${CI:-} == true && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	{ timeout 120 apt-get -qq update && timeout 600 apt-get -qq install -y --no-install-recommends \
		python3-venv python3-numpy python3-pandas python3-scipy python3-sklearn python3-pytest python3-setuptools python3-wheel python3-nbconvert python3-ipykernel python3-matplotlib mypy; } >/dev/null 2>&1 || true
fi
if ! find_python; then
	printf 'skipped: there is no Python 3 with venv, numpy, pandas, pytest, setuptools and wheel\n'
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHON=$python PYTHONDONTWRITEBYTECODE=1
unset FEDSIM PYTHONPATH
wheel=$(./wheel.sh "$work/first")
cmp "$wheel" "$(umask 077 && TZ=Asia/Tokyo LC_ALL=C ./wheel.sh "$work/second")" # the same bytes

"$python" -m venv --system-site-packages "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
cd "$work"
"$work/env/bin/fedsim" version
# Trackers and other tables where the packages are to be had; their tests are skipped elsewhere.
if [[ ${CI:-} == true ]]; then
	timeout 300 "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check mlflow-skinny tensorboard wandb polars >/dev/null 2>&1 || true
fi
(cd "$OLDPWD/.." && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/fednode" ./cmd/fednode)
export FEDNODE=$work/fednode # for tests of deployments
if "$python" -c 'import mypy' 2>/dev/null; then
	"$python" -m mypy --config-file "$OLDPWD/pyproject.toml" --cache-dir "$work/mypy" "$OLDPWD/src/fedsim"
fi
"$work/env/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$OLDPWD" "$OLDPWD/tests"
if "$python" -c 'import ipykernel, nbconvert' 2>/dev/null; then
	"$work/env/bin/python" -m ipykernel install --sys-prefix >/dev/null # a kernel with the package
	cp "$OLDPWD/examples/first-study.ipynb" notebook.ipynb
	"$work/env/bin/python" -m nbconvert --to notebook --execute --ExecutePreprocessor.timeout=600 --output executed.ipynb notebook.ipynb 2>"$work/nbconvert.log" || {
		cat "$work/nbconvert.log" >&2
		exit 1
	}
	printf 'the notebook ran to its end\n'
else
	printf 'the notebook is skipped: there is no nbconvert with ipykernel\n'
fi
