"""Ratings in and out, by the forms of other programs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import QUICK

import fedsim
from fedsim import recbole
from fedsim._command import setting_flags
from fedsim._frames import columns_of
from fedsim.estimator import Recommender


@pytest.mark.parametrize("names", [("user", "item", "rating"), ("user_id", "item_id", "rating"), ("userId", "movieId", "rating"),
                                   ("user_id:token", "item_id:token", "rating:float")])
def test_names_of_columns(names: tuple) -> None:
    frame = pd.DataFrame([[1, "a", 2.5], [2, "b", 3.0]], columns=list(names))
    assert columns_of(frame) == {"user": [1, 2], "item": ["a", "b"], "rating": [2.5, 3.0]}


def test_other_names_and_clicks() -> None:
    frame = pd.DataFrame({"visitor": [1.0, 2.0], "sku": ["x", "y"], "when": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    got = columns_of(frame, {"user": "visitor", "item": "sku", "timestamp": "when"})
    assert got == {"user": [1, 2], "item": ["x", "y"], "timestamp": [1704067200, 1704153600]}


@pytest.mark.parametrize("bad, says", [
    ({"user": [1], "rating": [2]}, "no column item"), ({"user": [1], "item": [1, 2]}, "differ in length"),
    ({"user": [1, 2], "item": ["a", None]}, "row 1: the item is missing"), ({"user": [1.0, float("nan")], "item": [1, 2]}, "row 1: the user"),
    ({"user": [1], "user_id": [1], "item": [2]}, "may each be the column user"), ({"user": [[1, 2]], "item": [1]}, "2 dimensions"),
])
def test_ratings_that_cannot_be_used(bad: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        columns_of(bad)


def test_settings() -> None:
    got = setting_flags({"eval__top_k": [5, 10], "clip_norm": np.float64(2.5), "no_header": True, "rank": None, "split.seed": np.int64(3), "epsilon": float("inf")})
    assert got == ["--set", "eval.top-k=5,10", "--set", "clip-norm=2.5", "--set", "no-header=yes", "--set", "split.seed=3", "--set", "epsilon=inf"]


def test_recbole_there_and_back(result: fedsim.Result, ratings: dict, tmp_path) -> None:
    path = recbole.write(ratings, tmp_path / "mine.inter")
    assert path.read_text().splitlines()[0] == "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    back = recbole.read(path)
    assert list(back["user"]) == ratings["user"] and list(back["rating"]) == ratings["rating"]
    folder = recbole.write_split(result, ratings, tmp_path / "split")
    parts = {p.name: len(p.read_text().splitlines()) - 1 for p in folder.iterdir()}
    assert parts["split.test.inter"] == len(result.split) and sum(parts.values()) == len(ratings["user"])
    with pytest.raises(ValueError, match="tab"):
        recbole.write({"user": ["a\tb"], "item": [1]}, tmp_path / "bad.inter")


def test_command_reads_recbole(ratings: dict, tmp_path) -> None:
    direct = fedsim.run(ratings, "private-item-bias", 50, out=tmp_path / "a", **QUICK)
    inter = fedsim.run(str(recbole.write(ratings, tmp_path / "mine.inter")), "private-item-bias", 50, out=tmp_path / "b", **QUICK)
    assert direct.metrics["test_rmse"] == inter.metrics["test_rmse"]


def test_estimator(ratings: dict) -> None:
    X = np.array([ratings["user"], ratings["item"]]).T
    y = np.array(ratings["rating"])
    fitted = Recommender(algorithm="sgd-mf", epsilon=float("inf"), settings={"rank": 4}).fit(X, y)
    assert fitted.predict(X).shape == y.shape
    want = 1 - np.sum((y - fitted.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2)
    assert fitted.score(X, y) == pytest.approx(want) and want > 0.3
    assert fitted.predict([["nobody", "i1"]]) == [3.0]
    assert Recommender(**fitted.get_params()).get_params() == fitted.get_params()
    assert fitted.set_params(epsilon=3).epsilon == 3
    with pytest.raises(ValueError, match="not fitted"):
        Recommender().predict(X)
    with pytest.raises(ValueError, match="y is missing"):
        Recommender().fit(X)


def test_without_pandas(result: fedsim.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    model = fedsim.Model.load(result.folder)
    assert model.item_embeddings()["embedding"].shape[0] == len(model.item_embeddings()["id"])
    assert len(model.recommend("u1", 2)["item"]) == 2
    assert fedsim.load(result.folder).rounds["round"][0] == 1
    assert len(model.recommend_all(2)["rank"]) == 240
