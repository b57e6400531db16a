"""Algorithms of one's own."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from algorithms import Phases, Mean, Mixed
from conftest import QUICK

import fedsim
from fedsim import own
from fedsim.own import Algorithm, Problem, Release, Users, command_of

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))


def test_without_noise_and_losses_it_is_the_sum(ratings: dict, tmp_path: Path) -> None:
    r = fedsim.run(ratings, Mean(bound=100.0, rounds=1), math.inf, out=tmp_path, rounds=1, dropout=0, **QUICK)
    test = set(zip(r.split["user"], r.split["item"]))
    sums: dict = {}
    for u in {u: None for u in ratings["user"]}:
        mine = [(j, x - 3) for v, j, x in zip(ratings["user"], ratings["item"], ratings["rating"]) if v == u and (v, j) not in test]
        norm = 100 / math.sqrt(sum(x * x + 1 for _, x in mine))
        for j, x in mine:
            a, b = sums.get(j, (0.0, 0.0))
            sums[j] = (a + norm * x, b + norm)
    want = {j: 3 + a / b for j, (a, b) in sums.items()}
    got = r.model.item_embeddings()[0]
    assert np.allclose([got[j] for j in want], list(want.values()), atol=0.01)  # fixed point
    assert r.clipping == {"vectors": 120, "clipped": 0}


@pytest.mark.parametrize("how", [{}, {"secagg": "real", "dropout": 0.2}])
def test_a_lie_changes_nothing(ratings: dict, tmp_path: Path, how: dict) -> None:
    runs = [fedsim.run(ratings, Mean(lie=lie), 50, out=tmp_path, name=f"x{lie}", **how, **QUICK) for lie in (1.0, 1e6)]
    honest, lying = runs
    assert honest.clipping["clipped"] == 0 and lying.clipping["clipped"] == lying.clipping["vectors"] > 200
    assert honest.epsilon == lying.epsilon <= 50
    assert np.allclose(honest.model.item_embeddings(), lying.model.item_embeddings(), atol=1e-3)


@pytest.mark.parametrize("bad, where, says", [
    ("raise", "contribute", r"contribute of round 1, for 120 users: RuntimeError: a fault of mine \(.*algorithms.py:\d+: raise"),
    ("crash", "contribute", r"the program ended: exit status 7; it last wrote:\n(.*\n)*last words"),
    ("reads", "contribute", "contribute of round 1, for 120 users: EOFError: EOF when reading a line"),  # requests are not its input
    ("nan", "contribute", "coordinate 5 of row 0 is NaN"),
    ("shape", "contribute", r"an array of shape \[120 79\]; \(120, 80\) is needed"),
    ("hang", "contribute", "gave no sign for 1s and was stopped"),
    ("raise", "open", "open: RuntimeError: a fault of mine"),
    ("raise", "predict", "predict for 120 users: RuntimeError"),
    ("nan", "predict", "the prediction of row 0 and item 5 is NaN"),
    ("crash", "predict", "exit status 7"),
    ("", "absorb", "a model of 39 x 1; 40 x 1 is needed"),
])
def test_failures_are_told(ratings: dict, tmp_path: Path, bad: str, where: str, says: str) -> None:
    with pytest.raises(fedsim.FedsimError, match=says):
        fedsim.run(ratings, Mean(bad=bad, where=where), 50, out=tmp_path, external__limit=1 if bad == "hang" else 60, **QUICK)
    assert not list(tmp_path.glob("external*"))


@pytest.mark.parametrize("more", [
    {"l2": math.nan}, {"l2": math.inf}, {"l2": None}, {"l2": "1"}, {"l1": math.nan}, {"linf": [1]}, {"length": 1.5}, {"rounds": 2.0}, {"non_zero": math.nan}, {"phase": 3},
])
def test_a_release_is_of_finite_numbers(more: dict) -> None:
    (name, value), = more.items()
    with pytest.raises(ValueError, match=f"^Release: {name} is .*; it must be a (finite number|whole number|text)$"):
        Release(**{"length": 4, "l2": 1.0, **more})


def test_a_release_takes_numbers_of_numpy() -> None:
    r = Release(length=np.int64(4), l2=np.float32(0.5), non_zero=np.uint8(3))
    assert json.loads(json.dumps(vars(r))) == vars(Release(length=4, l2=0.5, non_zero=3))


class OfNoNumber(Mean):
    def release(self) -> Release:
        return Release(length=2 * self.problem.items, l2=math.nan)


def test_a_fault_of_a_release_names_its_line(ratings: dict, tmp_path: Path) -> None:
    with pytest.raises(fedsim.FedsimError, match=r"Release: l2 is nan; it must be a finite number \(.*test_own.py:\d+: return Release"):
        fedsim.run(ratings, OfNoNumber(), 5, out=tmp_path, **QUICK)


@pytest.mark.parametrize("how, says", [
    ("batch", "a user's vector changed when the user was asked again alone"),
    ("memory", "depends on other users' ratings"),
    ("server", "absorb of round 1: AttributeError: .*(\n.*)*a program of its own, which has seen no ratings"),
])
def test_vectors_of_other_users_are_refused(ratings: dict, tmp_path: Path, how: str, says: str) -> None:
    with pytest.raises(fedsim.FedsimError, match=says):
        fedsim.run(ratings, Mixed(how=how), 5, out=tmp_path, **QUICK)


@pytest.mark.parametrize("file, name", [("fedmf", "FedMF"), ("fedavg", "FedAvg"), ("ncf", "NCF")])
def test_examples_learn_under_real_sums(file: str, name: str, tmp_path: Path) -> None:
    algorithm = getattr(__import__(file), name)(rounds=3)
    r = fedsim.run("synthetic:small-200", algorithm, 200, out=tmp_path, secagg="real", dropout=0.1, baselines="quick", progress=False)
    assert r.epsilon <= 200 and r.summary["secagg"] == "real"
    assert r.metrics["test_rmse"] < r.baselines["before_cooperation"]
    assert sum(not line.lstrip().startswith(("#", '"""')) for line in (EXAMPLES / "fedmf.py").read_text().splitlines() if line.strip()) <= 29


def test_model_answers_and_needs_the_program(ratings: dict, tmp_path: Path) -> None:
    r = fedsim.run(ratings, Mean(), 50, out=tmp_path, save_predictions=True, **QUICK)
    assert len(r.model.recommend("u3", 3)) == 3 and len(r.model.recommend_to({"i1": 5}, 2)) == 2
    timeless = {k: x for k, x in ratings.items() if k in ("user", "item")}
    assert np.isfinite(r.model.predict(timeless)).all()
    with pytest.raises(fedsim.FedsimError, match="FEDSIM_EXTERNAL"):
        fedsim.load(r.folder).model.recommend("u3")


def test_audit_and_plan(ratings: dict) -> None:
    plan = fedsim.plan(ratings, Mean(), 5, rating_min=1, rating_max=5)
    assert plan["releases"][0]["l2"] == 4 and plan["releases"][0]["length"] == 80
    report = fedsim.audit(Mean(rounds=1), 5, runs=500)
    assert report["bound"] <= report["claimed_epsilon"] <= 5


def test_phases_and_features(ratings: dict, tmp_path: Path) -> None:
    items = {"item": [f"i{j}" for j in range(40)], "genres": [["even"] if j % 2 == 0 else ["odd", "all"] for j in range(40)], "size": [j / 4 for j in range(40)]}
    r = fedsim.run(ratings, Phases(), math.inf, items=items, out=tmp_path, dropout=0, **QUICK)
    assert r.summary["rounds"] == 3
    model, train = r.model.item_embeddings(), set(zip(ratings["user"], ratings["item"])) - set(zip(r.split["user"], r.split["item"]))
    for j in range(40):  # by hand: how often an item is rated in training, its mean, and its features
        mine = [x for u, i, x in zip(ratings["user"], ratings["item"], ratings["rating"]) if i == f"i{j}" and (u, i) in train]
        row = model.loc[f"i{j}"]
        assert row[0] == pytest.approx(len(mine), abs=0.1) and row[1] == pytest.approx(np.mean(mine), abs=0.02)
        assert list(row[2:5]) == ([0, 1, 0] if j % 2 == 0 else [1, 0, 1])  # all, even, odd
    assert len(model.columns) == 2 + 3 + 2  # and a number above its mean, or below it
    plan = fedsim.plan(ratings, Phases(rounds=4, first=2), 50, rating_min=1, rating_max=5)
    assert [x["name"] for x in plan["releases"]] == ["counts", "pairs"] and plan["privacy"]["epsilon"] <= 50
    with pytest.raises(fedsim.FedsimError, match="2 rounds, and 1 of the run's are left"):
        fedsim.plan(ratings, Phases(first=2), 50, rounds=1)


def test_sweep_beside_built_in_algorithms(ratings: dict, tmp_path: Path) -> None:
    rows = zip(ratings["user"], ratings["item"], ratings["rating"])  # which is read once, for several commands
    s = fedsim.sweep(rows, ["private-item-bias", Mean(bound=2.0), Mean(bound=4.0)], epsilon=[5, 50], out=tmp_path, **QUICK)
    assert [r.summary["algorithm"] for r in s.results] == ["private-item-bias"] * 2 + ["external"] * 4
    assert [r.epsilon <= e for r, e in zip(s.results, [5, 50] * 3)] == [True] * 6
    assert len(s.table) == 6 and set(s.table["external.name"]) - {""} == {"Mean(bound=2.0)", "Mean(bound=4.0)"}
    assert len(s.results[-1].model.recommend("u3", 2)) == 2  # with the program


def test_parameters_and_classes() -> None:
    with pytest.raises(TypeError, match="no parameter 'rnk'"):
        Mean(rnk=3)

    class Local(Algorithm):
        pass

    with pytest.raises(ValueError, match="%%writefile"):
        command_of(Local())
    words = json.loads(command_of(Mean(bound=2.0))["FEDSIM_EXTERNAL"])
    assert words[1:3] == ["-m", "fedsim.serve"] and words[-2:] == ["Mean", '{"bound": 2.0}']
    assert repr(Mean(bound=2.0)) == "Mean(bound=2.0)"
    with pytest.raises(NotImplementedError, match="no method release"):
        Local().release()


class Ranked(Mean):
    """Has a constructor of its own, and a parameter that is no attribute of the class."""

    def __init__(self, rank: int = 2) -> None:
        self.rank = rank


def test_parameters_set_later_reach_the_process(ratings: dict) -> None:
    changed = Mean(bound=2.0)
    changed.bound, changed.rounds = 8.0, 3
    assert repr(changed) == "Mean(bound=8.0, rounds=3)"
    for algorithm, want in ((changed, 8), (Mean(bound=np.float32(2)), 2), (Mean(rounds=np.int64(3)), 4)):
        assert fedsim.plan(ratings, algorithm, 5, rating_min=1, rating_max=5)["releases"][0]["l2"] == want
    assert json.loads(json.loads(command_of(Ranked(rank=3))["FEDSIM_EXTERNAL"])[-1]) == {"rank": 3}
    with pytest.raises(fedsim.UsageError, match="parameters are numbers, texts and lists"):
        command_of(Mean(bound=object()))


@pytest.mark.parametrize("filled", [1, 12, 40])
def test_batches_do_not_show(filled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    counts = np.where(np.arange(50) < 25, filled, 1)  # of 40 items: some batches are sent whole, others without their zeros
    item = np.concatenate([np.sort(rng.choice(40, n, replace=False)) for n in counts])
    users = Users(np.append(0, np.cumsum(counts)), item, rng.uniform(1, 5, len(item)))
    algorithm = Mean()
    algorithm.problem = Problem(tuple(map(str, range(40))), 1, 5, 1, 1)
    model = rng.normal(size=(40, 1))
    want = algorithm.contribute(users, model)
    predicted = np.tile(model.T, (50, 1))
    monkeypatch.setattr(own, "_BATCH", 0)
    for fewest in (1, 16, 100):
        monkeypatch.setattr(own, "_FEWEST", fewest)
        sent = own._contributed(algorithm, users, model)
        got = sent["vectors"] if "vectors" in sent else own._dense((np.diff(sent["start"]), sent["index"], sent["value"]), 80)
        assert np.array_equal(got, want)
        assert np.array_equal(own._predicted(algorithm, users, model, {}), predicted)
        wanted = {"want_start": users.start, "want_item": users.item}
        assert np.array_equal(own._predicted(algorithm, users, model, wanted), predicted[users.row, users.item])


def test_users() -> None:
    users = Users([0, 2, 2, 3], [1, 3, 0], [5.0, 1.0, 2.0])
    assert len(users) == 3 and list(users.row) == [0, 0, 2]
    assert users.dense(4).tolist() == [[0, 5, 0, 1], [0, 0, 0, 0], [2, 0, 0, 0]]
    assert [list(j) for j, _ in users] == [[1, 3], [], [0]]
    assert Release(length=3, l2=1.0).non_zero == 0
