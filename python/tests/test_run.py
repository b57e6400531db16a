"""Runs, sweeps and the other commands."""

from __future__ import annotations

import copy
import importlib
import json
import math
import os
import pickle
import pkgutil
import stat
import subprocess
import warnings
from typing import Callable

import pytest
from conftest import QUICK

import fedsim


def test_version_is_of_the_command() -> None:
    number = fedsim.__version__.replace(".dev0", "-dev")
    assert f"v{number}" in fedsim.version()


def test_result_is_what_the_folder_holds(result: fedsim.Result) -> None:
    summary = json.loads((result.folder / "summary.json").read_text())
    assert result.metrics["test_rmse"] == summary["test_rmse"]
    assert result.metrics["ndcg@10"] == summary["ranking"]["ndcg@10"]
    assert result.epsilon == summary["privacy"]["epsilon"] <= 200
    assert result.baselines == summary["baselines"]
    assert len(result.rounds["round"]) == summary["rounds"]
    assert result.rounds["rmse"].iloc[-1] == pytest.approx(summary["test_rmse"])
    assert fedsim.load(result.folder).summary == summary
    table = result.ranking.set_index(["metric", "n"])["value"]
    assert table["ndcg", 10] == summary["ranking"]["ndcg@10"]
    assert "ssp-c" in repr(result)


def test_ratings_are_kept_for_the_owner_alone(result: fedsim.Result) -> None:
    (kept,) = (result.folder.parent / "ratings").glob("*")
    assert kept.read_text().startswith("user,item,rating,timestamp\nu0,")
    if os.name == "posix":
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_predictions_are_of_the_test_part(result: fedsim.Result) -> None:
    p = result.predictions
    rmse = math.sqrt(((p["rating"] - p["predicted"]) ** 2).mean())
    assert rmse == pytest.approx(result.metrics["test_rmse"])
    test = result.split[result.split["part"] == "test"]
    assert set(zip(test["user"], test["item"])) == set(zip(p["user"], p["item"]))


def test_events_are_told(ratings: dict, tmp_path) -> None:
    told: list = []
    fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, **{**QUICK, "progress": told.append})
    assert [e["event"] for e in told][0] == "phase" and told[-1]["event"] == "summary"
    assert sum(e["event"] == "round" for e in told) == told[0]["rounds"]


def test_bar_is_drawn(ratings: dict, tmp_path, capsys: pytest.CaptureFixture) -> None:
    fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, **{**QUICK, "progress": True})
    assert "[########################]" in capsys.readouterr().err


def test_errors_have_the_key_and_the_message() -> None:
    with pytest.raises(fedsim.UsageError, match=r"^epsilon: -1 is not a privacy budget") as e:
        fedsim.run("synthetic:small", epsilon=-1, rank=0)
    assert e.value.keys == ("epsilon", "rank") and e.value.key == "epsilon" and e.value.exit_code == 2
    assert isinstance(e.value, ValueError)
    with pytest.raises(fedsim.UsageError, match="keys with similar names: rank") as e:
        fedsim.run("synthetic:small", rnk=3)
    assert e.value.key == "rnk"
    with pytest.raises(fedsim.FedsimError, match="nowhere.csv") as f:
        fedsim.plan("nowhere.csv")
    assert f.value.exit_code == 1 and f.value.key is None


CLASSES = {x for m in pkgutil.iter_modules(fedsim.__path__) for x in vars(importlib.import_module(f"fedsim.{m.name}")).values()
           if isinstance(x, type) and issubclass(x, Exception) and x.__module__.startswith("fedsim")}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("kind", sorted(CLASSES, key=lambda x: x.__name__))
def test_errors_are_copied(kind: type, again: Callable) -> None:
    """As pools of processes make them."""
    e = fedsim.AuditError("said", {"bound": 3}) if kind is fedsim.AuditError else kind("said")
    e.printed, e.keys = "so far", ("epsilon",)
    other = again(e)
    assert type(other) is kind and str(other) == str(e) == "said" and vars(other) == vars(e) and other.args == e.args


def test_warnings_are_warnings(ratings: dict) -> None:
    with pytest.warns(fedsim.FedsimWarning, match="states no rating scale"):
        fedsim.plan(ratings, epsilon=5)


def test_missing_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSIM", "/nowhere/fedsim")
    with pytest.raises(FileNotFoundError):
        fedsim.version()


def test_sweep_runs_all_combinations_once(ratings: dict, tmp_path) -> None:
    def again() -> fedsim.Sweep:
        return fedsim.sweep(ratings, "private-item-bias", [5, 50], seeds=[1, 2], out=tmp_path / "s", **QUICK)

    s = again()
    assert len(s) == 4 and len(s.table["test_rmse"]) == 4
    assert sorted(s.table["epsilon"].astype(float)) == [5, 5, 50, 50]
    means = s.means("seed")
    assert sorted(means["epsilon"].astype(float)) == [5, 50]
    assert s.plot(tmp_path / "s.svg").read_text().startswith("<?xml") or (tmp_path / "s.svg").stat().st_size > 1000
    before = [r.folder.stat().st_mtime_ns for r in s.results]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the same ratings are no change of the data
        assert [r.folder.stat().st_mtime_ns for r in again().results] == before


def test_compare_with_itself_and_with_outside(result: fedsim.Result) -> None:
    p = result.predictions
    same = fedsim.compare(result, p[["user", "item", "predicted"]], resamples=200)
    assert same["difference"] == pytest.approx(0, abs=1e-12)
    worse = fedsim.compare(result, p.assign(score=3.0)[["user", "item", "score"]], resamples=200)
    assert worse["value_b"] == pytest.approx(math.sqrt(((p["rating"] - 3) ** 2).mean()))
    with pytest.raises(ValueError, match="no column predicted"):
        fedsim.compare(result, p[["user", "item"]])


def test_errors_of_a_table_to_compare_speak_of_rows(result: fedsim.Result) -> None:
    wrong = result.predictions.astype({"predicted": object})
    wrong.loc[3, "predicted"] = float("nan")
    with pytest.raises(fedsim.FedsimError, match='^row 3 of the table: "nan" is not a number'):
        fedsim.compare(result, wrong)


def test_plan_keys_explain() -> None:
    plan = fedsim.plan("synthetic:small", "ssp-c", 5)
    assert plan["data"]["users"] == 600 and plan["releases"]
    keys = fedsim.keys("rank", algorithm="ssp-c")
    assert "rank" in list(keys["key"])
    assert fedsim.explain("rank")["flag"] == "--rank"
    assert "rank" in fedsim.explain("ssp-c")["keys"]


def test_audit_bounds_the_stated_epsilon() -> None:
    report = fedsim.audit("private-item-bias", 5, runs=100)
    assert report["bound"] <= report["claimed_epsilon"] <= 5
    assert fedsim.audit("private-item-bias", 5, neighbours=True)["compared"]


def test_script_is_the_command() -> None:
    said = subprocess.run([fedsim.command_path(), "version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == fedsim.version()


def test_search_that_chose_the_settings_is_named(ratings: dict, result: fedsim.Result, tmp_path) -> None:
    assert result.chosen is None
    law = '{"candidates":20,"law":{"eta":1,"gamma":0.25},"runs":[[{"mechanism":"gaussian","noise_multiplier":1.5,"count":1}]]}'
    private = fedsim.run(ratings, "ssp-c", 3, settings={"chosen-by": law}, out=tmp_path, **QUICK)
    assert private.chosen["by"] == "private" and private.chosen["run_epsilon"] <= 3 < private.epsilon
    plain = fedsim.run(ratings, "ssp-c", 3, settings={"chosen-by": "plain"}, out=tmp_path, **QUICK)
    assert plain.chosen["by"] == "plain" and plain.epsilon == float("inf")
