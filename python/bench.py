"""Compares an algorithm under fedsim with the same algorithm in one process, by processor time:

    python python/bench.py FILE CLASS [ROUNDS] [PAIRS]

ROUNDS 0 stands for the rounds of the class. Both train on the same million ratings and measure the error before and after every
round. The process alone has the ratings in memory, clips and adds. Its batches have 17 users or 70; the faster time counts. fedsim also
reads the ratings from a file and sums integers. Each pair runs one after the other.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

import fedsim  # noqa: E402
from fedsim import _run, own  # noqa: E402

USERS, ITEMS, EACH, BATCHES = 6_000, 3_700, 167, (17, 70)
MEASURED = (
    "import resource, subprocess, sys; subprocess.call(sys.argv[2:]); r = resource.getrusage(resource.RUSAGE_CHILDREN); "
    "open(sys.argv[1], 'a').write(f'{r.ru_utime + r.ru_stime}\\n')"
)


def used(who: int) -> float:
    r = resource.getrusage(who)
    return r.ru_utime + r.ru_stime


def ratings() -> Dict[str, Any]:
    rng = np.random.default_rng(1)
    item = np.concatenate([np.sort(rng.choice(ITEMS, EACH, replace=False)) for _ in range(USERS)])
    user = np.repeat(np.arange(USERS), EACH)
    return {"user": user, "item": item, "rating": np.clip(np.round(3 + np.sin(item) + np.cos(user) + rng.normal(0, 1, len(item))), 1, 5)}


def under_fedsim(algorithm: own.Algorithm, data: Dict[str, Any], rounds: int, out: str) -> Any:
    """Return the processor seconds of the command and of the program, and the seconds of reading the file."""
    usage = Path(out) / "usage"
    usage.write_text("")
    program = own.command_of

    def measured(a: own.Algorithm) -> Dict[str, str]:
        env = program(a)
        return {**env, "FEDSIM_EXTERNAL": json.dumps([sys.executable, "-c", MEASURED, str(usage), *json.loads(env["FEDSIM_EXTERNAL"])])}

    _run.command_of = measured  # type: ignore[attr-defined]
    before = used(resource.RUSAGE_CHILDREN)
    r = fedsim.run(data, algorithm, math.inf, out=out, rounds=rounds, rating_min=1, rating_max=5, baselines="quick", progress=False, eval__top_k=10)
    command = used(resource.RUSAGE_CHILDREN) - before
    _run.command_of = program  # type: ignore[attr-defined]
    while not usage.read_text():  # the program ends with its input
        time.sleep(0.1)
    return command, float(usage.read_text()), r.summary["seconds"]["load"]


def alone(algorithm: own.Algorithm, data: Dict[str, Any], rounds: int, batch: int) -> float:
    """Return the processor seconds of the same in this process, in batches of so many users."""
    algorithm.problem = own.Problem(tuple(str(j) for j in range(ITEMS)), 1, 5, rounds, 1)
    before = used(resource.RUSAGE_SELF)
    model, release = algorithm.start(), algorithm.release()

    def batches() -> Iterator[own.Users]:
        for a in range(0, USERS, batch):
            b = min(USERS, a + batch)
            part = slice(a * EACH, b * EACH)
            yield own.Users(EACH * np.arange(b - a + 1), data["item"][part], data["rating"][part])

    def error() -> float:
        total = 0.0
        for users in batches():
            total += np.square(algorithm.predict(users, model)[users.row, users.item] - users.rating).sum()
        return math.sqrt(total / len(data["item"]))

    error()
    for k in range(1, rounds + 1):
        algorithm.round, total = k, np.zeros(release.length)
        for users in batches():
            v = algorithm.contribute(users, model)
            total += (v * np.minimum(1, release.l2 / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300))).sum(axis=0)
        algorithm.survivors = USERS
        model = algorithm.absorb(total, model)
        error()
    return used(resource.RUSAGE_SELF) - before


def main(file: str, name: str, rounds: int = 0, pairs: int = 3) -> None:
    data, ratios = ratings(), []
    sys.path.insert(0, str(Path(file).resolve().parent))
    cls = getattr(__import__(Path(file).stem), name)
    rounds = rounds or cls.rounds
    for _ in range(pairs):
        with tempfile.TemporaryDirectory() as out:
            command, program, load = under_fedsim(cls(rounds=rounds), data, rounds, out)
        one = min(alone(cls(rounds=rounds), data, rounds, batch) for batch in BATCHES)
        ratios.append((command + program) / one)
        print(f"fedsim {command:.1f} s (reading the file took {load:.1f} s) and program {program:.1f} s; alone {one:.1f} s; ratio {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
