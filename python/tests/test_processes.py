"""No process of the package outlives its caller, however the caller ends."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import QUICK

import fedsim

posix = pytest.mark.skipif(not hasattr(os, "fork") or not os.path.isdir("/proc"), reason="it looks at /proc")

# The ten ways in which a caller ends: what it does, or which signal it gets.
WAYS = {
    "returns": "pass", "exits": "sys.exit(3)", "exits at once": "os._exit(0)", "raises": "raise RuntimeError('mine')", "is another program": "os.execv('/bin/true', ['true'])",
    "SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL, "SIGINT": signal.SIGINT, "SIGHUP": signal.SIGHUP, "SIGSEGV": signal.SIGSEGV,
}

TRAIN = {"returns", "SIGKILL"}

CALLERS = """
import os, signal, sys, threading, time
import fedsim, fedsim.own
sys.path.insert(0, {tests!r})
from algorithms import Mean
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
def train():
    fedsim.run({ratings!r}, Mean(bad="hang"), 50, out={out!r} + str(os.getpid()), rating_min=1, rating_max=5, progress=False)
def call(way, trains):
    model = fedsim.Model.load({run!r})
    model.recommend("u1", 2)
    if trains:
        threading.Thread(target=train, daemon=True).start()
    signal.sigwait({{signal.SIGUSR1}})
    exec(way)
for way, trains in {ways!r}:
    pid = os.fork()
    if pid == 0:
        call(way, trains)
        sys.exit(0)
    print(pid, flush=True)
signal.pause()
"""


def below(pid: int) -> "set[int]":
    """Return the processes that descend from another."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (ValueError, OSError):
            pass
    found = {pid}
    while True:
        more = {c for c, p in parents.items() if p in found} - found
        if not more:
            return found - {pid}
        found |= more


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(done: "object", seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


@posix
def test_nothing_outlives_its_caller(result: fedsim.Result, ratings: dict, tmp_path: Path) -> None:
    """Each caller has a server, and two have a run too, whose program hangs in its first round."""
    few = {name: x[:300] for name, x in ratings.items() if name != "timestamp"}
    ways = [(way if isinstance(way, str) else "time.sleep(100)", name in TRAIN) for name, way in WAYS.items()]
    text = CALLERS.format(tests=str(Path(__file__).parent), run=str(result.folder), ratings=few, out=str(tmp_path), ways=ways)
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    callers = {name: int(parent.stdout.readline()) for name in WAYS}

    def computes(name: str, pid: int) -> bool:
        if name not in TRAIN:
            return any("--listen" in _line(c) for c in below(pid))
        programs = [c for c in below(pid) if "fedsim.serve" in _line(c)]
        return len(below(pid)) >= 3 and bool(programs) and all(alive(c) and os.getpgid(c) == c for c in programs)

    children: "dict[str, set[int]]" = {}
    try:
        for name, pid in callers.items():
            assert until(lambda name=name, pid=pid: computes(name, pid), 60), name
            children[name] = below(pid)
        for name, pid in callers.items():
            os.kill(pid, signal.SIGUSR1)
            if not isinstance(WAYS[name], str):
                os.kill(pid, WAYS[name])
        assert until(lambda: not any(map(alive, callers.values())), 60)
        until(lambda: not any(alive(c) for some in children.values() for c in some), 5)  # measured: 0.3 s with six processes waiting for each core
        assert {name: [_line(c) for c in some if alive(c)] for name, some in children.items()} == {name: [] for name in WAYS}
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        for pid in [*callers.values(), *(c for some in children.values() for c in some)]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


@posix
def test_a_script_without_a_guard_is_refused_at_once(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        (Path(__file__).parent / "algorithms.py").read_text()
        + f"\nimport fedsim\nfedsim.run('synthetic:small', Mean(), 50, out={str(tmp_path / 'runs')!r}, progress=False)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'if __name__ == "__main__"' in done.stderr and "mine.py" in done.stderr
    assert until(lambda: not [c for c in os.listdir("/proc") if c.isdigit() and alive(int(c)) and str(script) in _line(int(c))], 5)


def _line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_one_server_for_many_threads(result: fedsim.Result) -> None:
    with fedsim.Model.load(result.folder) as model, ThreadPoolExecutor(8) as pool:
        servers = list(pool.map(lambda k: (model.recommend(f"u{k}", 2) is not None) and model._server.process.pid, range(16)))
    assert len(set(servers)) == 1


@posix
def test_a_server_is_for_this_process_and_starts_again(result: fedsim.Result) -> None:
    model = fedsim.Model.load(result.folder)
    want = list(model.recommend("u1", 2)["item"])
    done = subprocess.run(["curl", "-s", f"{model._server.url}/recommend?user=u1"], capture_output=True, text=True)
    assert done.returncode != 0 or "token" in done.stdout
    model._server.process.kill()
    model._server.process.wait()
    assert list(model.recommend("u1", 2)["item"]) == want
    pid = os.fork()
    if pid == 0:  # a child has a server of its own, and leaves the parent's
        ok = list(model.recommend("u1", 2)["item"]) == want
        model.close()
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(model.recommend("u1", 2)["item"]) == want
    model.close()


def test_results_are_copied_and_do_not_depend_on_the_folder(result: fedsim.Result, ratings: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result.model.recommend("u1", 2)
    other = pickle.loads(pickle.dumps(result))
    assert list(other.model.recommend("u1", 2)["item"]) == list(result.model.recommend("u1", 2)["item"])
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    r = fedsim.run(ratings, "private-item-bias", 50, name="m", **QUICK)
    monkeypatch.chdir(tmp_path / "two")
    assert r.folder == tmp_path / "one" / "runs" / "m" and len(r.rounds) and len(r.model.recommend("u1", 2)) == 2
    r.model.close()
    (tmp_path / "one").rename(tmp_path / "three")  # with the ratings beside the run
    assert len(fedsim.load(tmp_path / "three" / "runs" / "m").model.recommend("u1", 2)) == 2
    assert fedsim.compare(tmp_path / "three" / "runs" / "m", tmp_path / "three" / "runs" / "m")["difference"] == 0
    assert json.loads((tmp_path / "three" / "runs" / "m" / "summary.json").read_text())["algorithm"] == "private-item-bias"
