"""Algorithms of one's own in deployments: fednode's roles as processes on this machine."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from algorithms import Mean
from deployed import DEMO, Federation

from fedsim.own import command_of

pytestmark = pytest.mark.skipif(not os.environ.get("FEDNODE"), reason="the variable FEDNODE names the command fednode")

CLIENTS = 8


def honest_means(users: "set[int]", bound: float) -> "dict[str, float]":
    """Return what `Mean` learns from users, computed here from the file of ratings."""
    ratings: dict = {}
    for line in (DEMO / "ratings.csv").read_text().splitlines()[1:]:
        user, item, rating = line.split(",")[:3]
        if int(user) - 1 in users:
            ratings.setdefault(user, {})[item] = float(rating) - 3
    sums: dict = {}
    for mine in ratings.values():
        norm = bound / math.sqrt(sum(x * x + 1 for x in mine.values()))
        for item, x in mine.items():
            a, b = sums.get(item, (0.0, 0.0))
            sums[item] = (a + norm * x, b + norm)
    return {item: 3 + a / max(b, 1) for item, (a, b) in sums.items()}


def test_a_lie_is_clipped_and_a_killed_client_is_left_out(tmp_path: Path) -> None:
    with Federation(tmp_path, CLIENTS) as f:
        clients = [f.client(k, command_of(Mean(lie=1e6 if k == 3 else 1.0)), "--max-epsilon", "inf") for k in range(CLIENTS)]
        server = f.server(command_of(Mean(pause=4.0)), epsilon="inf", rounds=2)
        server.until('"round":1,"survivors":8')  # absorb takes four seconds
        clients[7].stop(signal.SIGKILL)
        assert server.wait() == 0, server.log
        assert '"round":2,"survivors":7' in server.log
        assert [c.wait() for c in clients[:7]] == [0] * 7
    model = np.load(tmp_path / "server" / "current" / "item_embeddings.npy")[:, 0]
    ids = json.loads((tmp_path / "server" / "current" / "item_embeddings.ids.json").read_text())
    want = honest_means(set(range(7)), Mean.bound)
    assert np.allclose([x for item, x in zip(ids, model) if item in want], [want[item] for item in ids if item in want], atol=0.01)
    said = "beyond the bounds that the algorithm declares"
    assert [said in c.log for c in clients[:7]] == [k == 3 for k in range(7)]
    assert '"vectors":2,"clipped":2' in clients[3].log
    assert np.load(tmp_path / "client-0" / "result" / "predicted.npy").shape == (1, 30)


def test_failures_of_programs_are_told_and_charged_truthfully(tmp_path: Path) -> None:
    bad = {0: ("crash", "contribute of round 2, for 1 users: the program ended: exit status 7; it last wrote:"),
           1: ("nan", "coordinate 5 of row 0 is NaN"),
           2: ("shape", r"an array of shape \[1 59\]; \(1, 60\) is needed"),
           3: ("raise", "contribute of round 2, for 1 users: RuntimeError: a fault of mine"),
           4: ("hang", "round 2: the program did not answer within .* so zeros and noise are sent")}
    with Federation(tmp_path, 13) as f:
        other = f.client(12, command_of(Mean(bound=8.0)), "--max-epsilon", "100")  # its owner agreed to another bound
        clients = [f.client(k, command_of(Mean(bad=bad[k][0], when=2) if k in bad else Mean()), "--max-epsilon", "100") for k in range(12)]
        server = f.server(command_of(Mean()), epsilon=50, rounds=3, tolerance=0.5, external__limit=14)
        assert server.wait() == 0, server.log
        codes = [c.wait() for c in clients]
        for k, (_, says) in bad.items():
            assert re.search('"event":"input-unusable".*' + says, clients[k].log), clients[k].log
        spent = [re.search(r"spent +epsilon (\S+) in (\d) of 3 rounds", f.run("status", "--state", f"client-{k}")) for k in range(12)]
    assert re.search("these are not the terms of the experiment: step 1 release 1 l2 is 4; it must be 8", other.log), other.log
    # A program that ended cannot use the final model. After a number or a shape that is wrong it can.
    assert codes == [1, 0, 0, 1, 1] + [0] * 7
    assert all("its model cannot be used" in clients[k].log for k in (0, 3, 4))
    # A client whose input is unusable sends an empty record, with its noise: taking part does not depend on ratings, and is
    # charged. A client whose program hangs does so at the fixed time of answers.
    assert re.findall('"survivors":([0-9]+)', server.log) == ["12", "12", "12"]
    assert [s and int(s[2]) for s in spent] == [3] * 12
    assert all(s and float(s[1]) <= 50 for s in spent)
