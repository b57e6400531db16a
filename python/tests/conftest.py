"""Ratings and runs that the tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsim

QUICK = {"rating_min": 1, "rating_max": 5, "baselines": "quick", "progress": False}


def made(users: int = 120, items: int = 40, each: int = 15) -> "dict[str, list]":
    """Return ratings that depend on the item's number and a user's half."""
    rng = np.random.default_rng(7)
    columns: "dict[str, list]" = {"user": [], "item": [], "rating": [], "timestamp": []}
    for u in range(users):
        for j in rng.choice(items, each, replace=False):
            likes = 3 + (1 if (j + u) % 2 else -1) + rng.normal(0, 0.5)
            for name, x in zip(columns, (f"u{u}", f"i{j}", int(np.clip(round(likes), 1, 5)), 1_600_000_000 + 100 * u + int(j))):
                columns[name].append(x)
    return columns


@pytest.fixture(scope="session")
def ratings() -> "dict[str, list]":
    return made()


@pytest.fixture(scope="session")
def result(ratings: "dict[str, list]", tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    out: Path = tmp_path_factory.mktemp("runs")
    return fedsim.run(ratings, "ssp-c", 200, out=out, name="one", save_predictions=True, **QUICK)
