"""Ratings in and out, by the forms of other programs."""

from __future__ import annotations

import atexit
import copy
import datetime
import decimal
import enum
import fractions
import gc
import math
import os
import pickle
import uuid
import warnings
from pathlib import Path
from typing import Callable

import numpy as np
import pandas as pd
import pytest
from conftest import QUICK

import fedsim
from fedsim import recbole
from fedsim._command import join_settings
from fedsim._frames import columns_of, kinds_of
from fedsim._ids import id_text, id_texts
from fedsim.estimator import Recommender


@pytest.mark.parametrize("names", [("user", "item", "rating"), ("user_id", "item_id", "rating"), ("userId", "movieId", "rating"),
                                   ("user_id:token", "item_id:token", "rating:float")])
def test_names_of_columns(names: tuple) -> None:
    frame = pd.DataFrame([[1, "a", 2.5], [2, "b", 3.0]], columns=list(names))
    assert columns_of(frame) == {"user": ["1", "2"], "item": ["a", "b"], "rating": [2.5, 3.0]}


def test_other_names_and_clicks() -> None:
    frame = pd.DataFrame({"visitor": [1.0, 2.0], "sku": ["x", "y"], "when": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    got = columns_of(frame, {"user": "visitor", "item": "sku", "timestamp": "when"})
    assert got == {"user": ["1", "2"], "item": ["x", "y"], "timestamp": [1704067200, 1704153600]}


@pytest.mark.parametrize("bad, says", [
    ({"user": [1], "rating": [2]}, "no column item"), ({"user": [1], "item": [1, 2]}, "differ in length"),
    ({"user": [1, 2], "item": ["a", None]}, "row 1: the item is missing"), ({"user": [1.0, float("nan")], "item": [1, 2]}, "row 1: the user"),
    ({"user": [1], "user_id": [1], "item": [2]}, "may each be the column user"), ({"user": [[1, 2]], "item": [1]}, "row 0: the user is a list"), ({"user": np.ones((1, 2)), "item": [1]}, "2 dimensions"),
    ({"user": [1], "item": [2], "rating": ["good"]}, "row 0: the rating is 'good'"), ([{"user": 1, "item": 2}, {"user": 3}], "row 1: the item is missing"),
    ({"user": np.ma.array([1, 2], mask=[0, 1]), "item": [1, 2]}, "row 1: the user is missing"), (np.ma.array([[1, 2, 3], [1, 3, 4]], mask=[[0, 0, 0], [0, 0, 1]]), "row 1: the rating is missing"),
    (pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"]), "column 'user' twice"), ({"user": {1, 2}, "item": [1, 2]}, "the column user is a set, which has no order"),
    ({"user": "ab", "item": [1, 2]}, "the column user is a text"), ({"user": [1], "item": [2], "rating": ["1_0"]}, "row 0: the rating is '1_0'"), ({"user": [1], "item": [2], "rating": [10**400]}, "row 0: the rating is 10"), (np.ones((3, 9)), "shape"), ([(1, 2), (1,)], "rows must be"), (7, "a int is no table"),
])
def test_ratings_that_cannot_be_used(bad: object, says: str) -> None:
    with pytest.raises(fedsim.UsageError, match=says):
        columns_of(bad)


def test_settings() -> None:
    got = join_settings({"eval__top_k": [5, 10], "split": {"seed": np.int64(3)}}, {"clip_norm": np.float64(2.5), "no_header": True, "rank": None, "epsilon": float("inf")})
    assert got == {"clip-norm": "2.5", "no-header": "yes", "epsilon": "inf", "eval.top-k": "5,10", "split.seed": "3"}
    assert join_settings({"epsilon": 1.0}, {"epsilon": 1}) == {"epsilon": "1"}
    with pytest.raises(fedsim.UsageError, match=r"clip-norm has two values: clip_norm=2 and settings\['clip_norm'\]=3") as e:
        join_settings({"clip_norm": 3}, {"clip_norm": 2})
    assert e.value.key == "clip-norm"


@pytest.mark.parametrize("value, want", [
    (1, "1"), (1.0, "1"), (np.int64(1), "1"), (np.array(1.0), "1"), ("1", "1"), (np.float32(0.1), "0.1"), (np.float16(0.1), "0.1"), (0.1, "0.1"), (math.inf, "inf"), (np.float32("inf"), "inf"), (1e-9, "1e-09"),
    (np.bool_(True), "yes"), ({10, 9}, "10,9"), (frozenset(["b", "a"]), "a,b"), ({"x": 1}.keys(), "x"), (pd.Index([5, 10]), "5,10"), (enum.Enum("E", {"A": "split"}).A, "split"), (Path("a"), "a"), (b"a", "a"),  # type: ignore[attr-defined]
])
def test_values_of_settings(value: object, want: str) -> None:
    assert join_settings({"k": value}) == join_settings({}, {"k": value}) == join_settings({"k": value}, {"k": want}) == {"k": want}


def test_settings_in_levels_and_none() -> None:
    assert join_settings({"split": {"test": 0.1}}) == join_settings({}, {"split": {"test": 0.1}}) == join_settings([("split.test", "0.1")]) == {"split.test": "0.1"}
    assert join_settings({"epsilon": None, "split": {"test": None}}, {"rank": None}) == {}
    assert join_settings({"epsilon": "1.0"}, {"epsilon": 1}) == {"epsilon": "1"}  # one value
    for bad, says in (("mine.yaml", "settings is 'mine.yaml'; give a mapping"), ({"k": iter([1])}, "can be read only once; give a list"), (7, "settings is 7")):
        for use in (join_settings, lambda x: fedsim.run(settings=x), lambda x: fedsim.sweep(settings=x), lambda x: Recommender(settings=x).fit([(1, 2)], [3])):
            with pytest.raises(fedsim.UsageError, match=says):
                use(bad)


@pytest.mark.parametrize("how, left", [({"split": {"test": 0.1}}, 0.1), ({"split__test": 0.1}, 0.1), ({"split.test": None}, 0), ({"split": {"fold": "1/5"}}, 0.2), ({"split": {"by": "leave-one-out"}}, 120 / 1800), ({"rating-min": "1.0", "baselines": None}, 0)])
def test_settings_of_the_estimator_reach_the_command(how: dict, left: float, ratings: dict) -> None:
    r = Recommender("private-item-bias", settings=how).fit(list(zip(ratings["user"], ratings["item"])), ratings["rating"]).result_
    assert abs(len(r.split) - 1800 * left) < 60 * (left > 0) + 1 and r.settings["rating-min"] == "1" and "baselines: quick" in (r.folder / "config.yaml").read_text()


def test_columns_in_settings(ratings: dict, tmp_path: Path) -> None:
    frame = pd.DataFrame(ratings).rename(columns={"rating": "quality"})
    frame.to_csv(tmp_path / "r.csv", index=False)
    for data in (frame, tmp_path / "r.csv"):
        assert fedsim.plan(data, "private-item-bias", settings={"columns": {"rating": "quality"}}, rating_min=1, rating_max=5)["privacy"]["epsilon"] <= 10


# Each form of the same three ratings, written by hand.
FORMS = [
    {"user": [7, 7, 8], "item": [1, 2, 1], "rating": [5, 3, 4]},
    [{"user": 7, "item": 1, "rating": 5}, {"item": 2, "user": 7, "rating": 3}, {"user": 8, "item": 1, "rating": 4}],
    [(7, 1, 5), (7, 2, 3), (8, 1, 4)],
    np.array([[7, 1, 5], [7, 2, 3], [8, 1, 4]]),
    np.array([[7, 1, 5], [7, 2, 3], [8, 1, 4]], float),
    np.array([(7, 1, 5), (7, 2, 3), (8, 1, 4)], [("user", int), ("item", int), ("rating", float)]),
    pd.DataFrame({"userId": [7.0, 7.0, 8.0], "movieId": [" 1", "2 ", "1"], "rating": [5, 3, 4]}),
    pd.DataFrame({"\ufeffuser_id": pd.array([7, 7, 8], "Int64"), "item_id": pd.Categorical([1, 2, 1]), "rating": ["5", "3", "4"]}),
]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_ratings(form: object) -> None:
    got = columns_of(form)
    assert got["user"] == ["7", "7", "8"] and got["item"] == ["1", "2", "1"] and [float(x) for x in got["rating"]] == [5, 3, 4]


def levels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index(["user", "item"])


@pytest.mark.parametrize("form", [
    levels(pd.DataFrame(FORMS[0])), levels(pd.DataFrame(FORMS[0]))["rating"], {"user": iter([7, 7, 8]), "item": (x for x in [1, 2, 1]), "rating": [5, 3, 4]},
    {"user": np.ma.array([7, 7, 8]), "item": np.ma.array([1, 2, 1]), "rating": [5, 3, 4]},
])
def test_forms_of_columns(form: object) -> None:
    assert columns_of(form) == {"user": ["7", "7", "8"], "item": ["1", "2", "1"], "rating": [5, 3, 4]}


@pytest.mark.parametrize("truths", [lambda x: x, lambda x: ["yes" if t else "no" for t in x], lambda x: ["Thumbs up" if t else "thumbs_down" for t in x], list, lambda x: pd.Series(x, dtype="boolean")])
def test_truths_are_on_a_scale_from_0_to_1(truths: Callable, ratings: dict, tmp_path: Path) -> None:
    """As in files. On the scale from 0 to 5 of unknown numbers there would be five times the noise."""
    r = fedsim.run({**ratings, "rating": truths(np.array(ratings["rating"]) > 3)}, "private-item-bias", out=tmp_path, baselines="quick", progress=False)
    assert (r.settings["rating-min"], r.settings["rating-max"]) == ("0", "1")


def test_truths_in_texts_are_ratings() -> None:
    assert columns_of({"user": [1, 2, 3], "item": [1, 1, 1], "rating": ["True", " false ", "T"]})["rating"] == [1, 0, 1]
    with pytest.raises(fedsim.UsageError, match="row 1: the rating is 'true'"):  # as in files: all of a column or none
        columns_of({"user": [1, 2], "item": [1, 1], "rating": ["1", "true"]})


@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.astype({"quality": "Int64"}), lambda x: x.assign(quality=x.quality > 2), lambda x: x.astype({"quality": str}),
                                  lambda x: x.to_dict("list"), lambda x: x.to_dict("records"), lambda x: x.to_records(index=False), lambda x: x.set_index(["user", "item"])])
def test_clicks_beside_numbers_are_named_once(form: Callable, tmp_path: Path) -> None:
    """The command warns of a file by the same rule, in the same words."""
    frame = pd.DataFrame([(u, (u * 7 + k * 5) % 31, 1 + (u * 3 + k * 2) % 5) for u in range(60) for k in range(8)], columns=["user", "item", "quality"])
    frame.to_csv(tmp_path / "r.csv", index=False)
    with pytest.warns(fedsim.FedsimWarning) as of_file:
        fedsim.plan(tmp_path / "r.csv", "private-ease", 5)
    with pytest.warns(fedsim.FedsimWarning) as of_frame:
        fedsim.plan(form(frame), "private-ease", 5)
    assert [str(w.message).split("; ")[0] for w in of_frame] == [str(w.message).split("; ")[0] for w in of_file]
    assert str(of_frame[0].message).endswith("name it with columns={'rating': 'quality'}, and if rows are clicks, leave it out: ratings[['user', 'item']]")
    assert of_frame[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedsim.plan(frame[["user", "item"]], "private-ease", 5)
        fedsim.plan(frame[["user", "item"]].assign(colour="red", day=pd.Timestamp("2020-01-01"), none=None), "private-ease", 5)
        fedsim.plan(frame, "private-ease", 5, columns={"rating": "quality"}, rating_min=0, rating_max=5)


def test_masked_ids_have_their_type() -> None:
    assert kinds_of({"user": np.ma.array([7, 8]), "item": np.ma.array([1.0, 2.0])}).kinds == {"user": "int64", "item": "float64"}


def test_sparse_matrix() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    m = sparse.csr_matrix(([5, 3, 4], ([7, 7, 8], [1, 2, 1])))
    assert columns_of(m) == {"user": ["7", "7", "8"], "item": ["1", "2", "1"], "rating": [5, 3, 4]}


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    assert columns_of(polars.DataFrame(FORMS[0]))["user"] == ["7", "7", "8"]


@pytest.mark.parametrize("x, want", [
    ("ann", "ann"), (" ann ", "ann"), ("\ufeffann", "ann"), (7, "7"), (7.0, "7"), (np.float32(7), "7"), (np.int8(-7), "-7"), (2**70, str(2**70)),
    (2.0**52, str(2**52)), (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"), ("7.0", "7"), ("007.0", "007.0"), ("7.5", "7.5"), ("5e3", "5e3"), ("-0.0", "0"),
])
def test_ids(x: object, want: str) -> None:
    assert id_text(x) == want and id_texts([x], "user") == [want]


@pytest.mark.parametrize("x", [
    None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "", " ", "NA", "nan", "NaN", "None", "null", "\\N", "1.8446744073709552e+19", "9007199254740992.0", "a\ud800", b"a\xff", 7.5, 2.0**53, np.float32(2**24), float("inf"), True, [1],
])
def test_no_ids(x: object) -> None:
    with pytest.raises(fedsim.UsageError, match="row 1: the user is"):
        id_texts(["ann", x], "user")


def test_large_ids_beside_a_missing_one() -> None:
    ids = [2**63 + k for k in range(40)]
    assert id_texts(ids, "user") == [str(x) for x in ids]
    with pytest.raises(fedsim.UsageError, match="row 0: the user is .*Int64"):  # pandas made floats of them
        columns_of(pd.DataFrame({"user": pd.Series([*ids, None], dtype=float), "item": 1}))


@pytest.mark.parametrize("values, want", [
    (pd.to_datetime(["2024-01-01"]), 1704067200), (pd.Series(pd.to_datetime(["2024-01-01 02:00"])).dt.tz_localize("Europe/Berlin"), 1704070800),
    (pd.DatetimeIndex(["2024-01-01 02:00"], tz="Europe/Berlin"), 1704070800), ([datetime.date(2024, 1, 1)], 1704067200), ([datetime.datetime(2024, 1, 1)], 1704067200), ([1704067200.0], 1704067200), (["2024-01-01 "], "2024-01-01"),
])
def test_times(values: object, want: object) -> None:
    assert columns_of({"user": [1], "item": [1], "timestamp": values})["timestamp"] == [want]


@pytest.mark.parametrize("none", [datetime.date(9999, 12, 31), datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1), np.datetime64("9999-12-31", "s")])
@pytest.mark.parametrize("column", [lambda x: [x], lambda x: np.array([x], "datetime64[s]")])
def test_dates_of_databases_without_a_time(none: object, column: object) -> None:
    """As a number of seconds 9999-12-31 would count milliseconds, of 1978. As a text the command reads it as missing."""
    got = columns_of({"user": [1], "item": [1], "timestamp": column(none)})["timestamp"]
    assert len(got) == 1 and isinstance(got[0], str) and got[0][:10] in ("9999-12-31", "0001-01-01")


@pytest.mark.parametrize("bad", [pd.to_datetime(["NaT"]), pd.DatetimeIndex([pd.NaT], tz="UTC"), [None], ["null"], [float("nan")], [pd.NaT]])
def test_missing_times(bad: object) -> None:
    with pytest.raises(fedsim.UsageError, match="row 0: the timestamp is missing"):
        columns_of({"user": [1], "item": [1], "timestamp": bad})


@pytest.mark.parametrize("kind", ["int64", "uint16", "float64", "Int64", "category", "str"])
def test_ids_come_back_in_the_type_of_the_frame(kind: str, tmp_path) -> None:
    frame = pd.DataFrame([(u, (u * 7 + k * 5) % 31, 1 + (u * 3 + k * 2) % 5) for u in range(60) for k in range(8)], columns=["user", "item", "rating"])
    frame = frame.astype({"user": kind, "item": kind})
    r = fedsim.run(frame, "private-item-bias", 50, out=tmp_path, save_predictions=True, **QUICK)
    lists = r.model.recommend_all(3)
    assert lists["item"].isin(frame["item"]).all() and lists["user"].isin(frame["user"]).all() and len(lists) == 180
    for t in (r.predictions, r.split):
        assert len(t.merge(frame.astype({"user": lists["user"].dtype, "item": lists["item"].dtype}), on=["user", "item"])) == len(t) > 0
    again = fedsim.load(r.folder)
    assert list(again.model.item_embeddings().index[:3]) == list(frame["item"].drop_duplicates().sort_values(key=lambda x: x.astype(int))[:3])
    assert list(again.model.recommend(frame["user"][9], 2)["item"]) == list(lists[lists["user"] == frame["user"][9]]["item"][:2])


@pytest.mark.parametrize("make", [
    lambda k: uuid.UUID(int=k), lambda k: b"u%d" % k, lambda k: np.bytes_(b"u%d" % k), lambda k: decimal.Decimal(k) / 4, lambda k: datetime.date(2020, 1, 1 + k), lambda k: datetime.datetime(2020, 1, 1, k, 7),
    lambda k: pd.Timestamp(2020, 1, 1, k, 7), lambda k: pd.Timestamp(2020, 1, 1, k).tz_localize("Europe/Berlin"), lambda k: 2**70 + k, lambda k: np.uint64(2**63 + k), lambda k: 1.0 * k, lambda k: np.int8(k), str,
])
@pytest.mark.parametrize("form", [list, lambda x: pd.Series(x, dtype=object), pd.Series, lambda x: pd.Series(x, dtype="category"), np.array])
def test_ids_come_back_as_what_they_were(make: Callable, form: Callable) -> None:
    given = form([make(k) for k in range(20)])
    back = kinds_of({"user": given, "item": given}).typed("user", id_texts(given, "user"))
    assert all(x == y and hash(x) == hash(y) for x, y in zip(back, given)) and len(back) == 20


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "Float64", "Float32"])
def test_nullable_ids_come_back_in_their_type(dtype: str) -> None:
    frame = pd.DataFrame({"user": pd.array([7, 8, None], dtype), "item": pd.array([1, 2, 3], dtype)}).dropna()
    back = pd.Series(kinds_of(frame).typed("user", ["8", "7"]))
    assert back.dtype == dtype and list(back) == [8, 7]


@pytest.mark.parametrize("given", [[1, "2"], [pd.Timestamp("2020-01-01 00:00:00.000000001")], [True], [], [fractions.Fraction(1, 2)]])
def test_ids_without_a_type_are_texts(given: list) -> None:
    assert kinds_of({"user": given, "item": given}).kinds == {"user": None, "item": None}
    assert kinds_of({"user": [uuid.UUID(int=1)], "item": [1]}).typed("user", ["ann"]) == ["ann"]  # of other ratings


def test_items_give_titles_and_features(ratings: dict, tmp_path) -> None:
    items = pd.DataFrame({"item": [f"i{j}" for j in range(40)], "title": [f"Film {j}" for j in range(40)], "genres": [["even", "all"] if j % 2 == 0 else ["odd"] for j in range(40)],
                          "year": [1990.0 + j for j in range(40)], "embedding": [np.array([j % 2 - 0.5, 0.1 * j]) for j in range(40)], "price": [j + 0.5 for j in range(40)]})
    r = fedsim.run(ratings, "ssp-c", 200, items=items, out=tmp_path, **QUICK)
    # What the command finds by itself stays, with eras of years, beside what the frame has more.
    assert r.settings["features"].startswith("genres,era,genre-era,") and "numbers.csv" in (r.folder / "config.yaml").read_text()
    one = r.model.recommend("u3", 1)
    assert one["title"][0] == f"Film {one['item'][0][1:]}" and int(one["year"][0]) == 1990 + int(one["item"][0][1:])
    # By hand: the numbers of price have the deviation of 0 to 39, √(40² − 1)/√12, and the mean 19.5.
    numbers = pd.read_csv(next((tmp_path / "ratings").glob("*/numbers.csv")))
    price = numbers[(numbers.category == "price") & (numbers.item_id == "i0")]
    assert list(price.value) == ["0-"] and price.weight.iloc[0] == pytest.approx(19.5 / np.sqrt(1599 / 12), abs=1e-5)
    exact = fedsim.run(ratings, "ssp-c", 200, items=items.assign(price=[decimal.Decimal(2 * j + 1) / 2 for j in range(40)]), out=tmp_path, **QUICK)
    assert exact.metrics == r.metrics  # numbers of a database
    named = fedsim.run(ratings, "ssp-c", 200, items=items, features="genres", out=tmp_path, **QUICK)
    assert named.settings["features"] == "genres"
    with pytest.raises(fedsim.UsageError, match="none of the rated items"):
        fedsim.run(ratings, items=[{"item": "x", "title": "X"}], out=tmp_path)
    with pytest.raises(fedsim.UsageError, match="row 1: item 'x' is described twice"):
        fedsim.run(ratings, items=[{"item": "x", "title": "X"}, {"item": " x"}], out=tmp_path)
    with pytest.raises(fedsim.UsageError, match="no column item, only title; .*rename_axis"):  # numbers of rows must not stand in for ids
        fedsim.run(ratings, items=pd.DataFrame({"title": ["One", "Two"]}), out=tmp_path)


def test_errors_speak_of_rows_and_keywords(ratings: dict, tmp_path) -> None:
    frame = pd.DataFrame(ratings).astype({"rating": float})
    frame.loc[17, "rating"] = 9
    with pytest.raises(fedsim.FedsimError, match="row 17 of the ratings: .*9") as e:
        fedsim.run(frame, "private-item-bias", 5, out=tmp_path, **QUICK)
    assert ".csv" not in str(e.value) and "--" not in str(e.value)
    twice = pd.concat([pd.DataFrame(ratings), pd.DataFrame(ratings)[:1]])
    with pytest.raises(fedsim.FedsimError, match="row 1800 of the ratings: .*in row 0 already.*duplicates") as e:
        fedsim.run(twice, "private-item-bias", 5, out=tmp_path, **QUICK)
    assert "--" not in str(e.value)
    with pytest.raises(fedsim.UsageError, match="^rating_min, rating_max: "):
        fedsim.run(pd.DataFrame(ratings), rating_min=5, rating_max=1, out=tmp_path)
    stamped = pd.DataFrame(ratings).assign(timestamp=[1e9 + i for i in range(len(ratings["user"]))]).astype({"timestamp": object})
    stamped.loc[4, "timestamp"] = "2020-13-45"
    with pytest.warns(fedsim.FedsimWarning, match="without a time.*; row 4$"):
        fedsim.plan(stamped, "private-item-bias", 5, rating_min=1, rating_max=5)
    with pytest.warns(fedsim.FedsimWarning, match="the true scale with rating_min and rating_max"):
        fedsim.plan(pd.DataFrame(ratings), "private-item-bias", 5)


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
    assert fitted.set_params(epsilon=3).epsilon == 3 and fitted.get_params()["epsilon"] == 3
    assert Recommender(**fitted.get_params()).get_params() == fitted.get_params()
    with pytest.raises(ValueError, match="not fitted"):
        Recommender().predict(X)
    with pytest.raises(ValueError, match="y is missing"):
        Recommender().fit(X)


def test_estimator_trains_on_all_and_falls_back_on_biases(ratings: dict) -> None:
    X, y = np.array([ratings["user"], ratings["item"]]).T, np.array(ratings["rating"], float)
    fitted = Recommender(epsilon=math.inf).fit(X, y)
    assert len(fitted.result_.split) == 0 and fitted.result_.metrics == {}
    # By hand: a user's deviation from what the model says to everybody, shrunk by five ratings; the mean item of that for a new one.
    popular = {j: x for j, x in zip(sorted(set(X[:, 1])), fitted.result_.model.predict([None] * 40, sorted(set(X[:, 1]))))}
    mine = X[:, 0] == "u3"
    level = sum(y[mine] - [popular[j] for j in X[mine, 1]]) / (mine.sum() + 5)
    got = fitted.predict([["u3", "of tomorrow"], ["nobody", "i1"], ["nobody", "of tomorrow"]])
    mean = np.mean(list(popular.values()))
    assert np.allclose(got, [mean + level, popular["i1"], mean])
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert np.array_equal(other.predict(X[:5]), fitted.predict(X[:5]))
        assert other.result_.folder != fitted.result_.folder
    with pytest.raises(fedsim.UsageError, match=r"epsilon has two values: epsilon=2 and settings\['epsilon'\]=1"):
        Recommender(epsilon=2, settings={"epsilon": 1}).fit(X, y)
    with pytest.raises(fedsim.FedsimError, match="not fitted"):
        Recommender().predict(X)


FULL = [(u, j, (u + j) % 5 + 1) for u in range(4) for j in range(3)]  # each user has rated each item


@pytest.mark.parametrize("rows, algorithm", [(FULL, "private-item-bias"), (FULL, None), (FULL[:1], "sgd-mf"), (FULL[:3], "sgd-mf"), ([FULL[0], FULL[3]], "ssp-c")])
def test_estimator_of_a_few_ratings(rows: list, algorithm: str) -> None:
    X, y = [row[:2] for row in rows], [row[2] for row in rows]
    fitted = Recommender(algorithm, epsilon=math.inf).fit(X, pd.DataFrame({"y": y}))
    assert len(fitted.result_.split) == 0
    assert np.isfinite(fitted.predict([*X, ("new", "new")])).all() and (len(rows) == 1 or np.isfinite(fitted.score(X, y)))
    assert list(fitted.recommend(rows[0][0]).columns) == ["item", "score", "predicted"] and len(fitted.recommend(rows[0][0])) == 0  # nothing is left


def test_estimator_takes_y_before_a_column_of_ratings(ratings: dict) -> None:
    X = pd.DataFrame(ratings).rename(columns={"rating": "stars"})
    fitted = [Recommender("private-item-bias").fit(x, X["stars"]) for x in (X, X.drop(columns="stars"), X.assign(stars=1))]
    assert len({e.predict([("u3", "i1")])[0] for e in fitted}) == 1


def test_estimator_of_clicks_holds_nobody_out(ratings: dict) -> None:
    fitted = Recommender("private-ease").fit(list(zip(ratings["user"], ratings["item"])), ratings["rating"])
    assert set(fitted.result_.split["part"]) == {"left-out"} and len(fitted.recommend("u3", 4)) == 4  # ratings below 4 stars are no likes


@pytest.mark.parametrize("none", [pd.DataFrame({"user": [], "item": [], "rating": []}), np.zeros((0, 3)), [], {"user": [], "item": []}])
def test_no_ratings(none: object, tmp_path: Path) -> None:
    with pytest.raises(fedsim.UsageError, match="^there are no rows"):
        fedsim.run(none, out=tmp_path)
    if isinstance(none, pd.DataFrame):
        with pytest.raises(fedsim.UsageError, match="^there are no rows"):
            Recommender().fit(none[["user", "item"]], none["rating"])
        fitted = Recommender("sgd-mf", math.inf).fit([(1, 2)], [3])
        assert fitted.predict(none[["user", "item"]]).shape == (0,)


def test_a_result_outlives_its_estimator(ratings: dict) -> None:
    fitted = Recommender("private-item-bias").fit(list(zip(ratings["user"], ratings["item"])), ratings["rating"])
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()  # as a program does at its end
        os._exit(0)
    os.waitpid(child, 0)
    folder, result = fitted.result_.folder, fitted.result_
    del fitted
    gc.collect()
    model = result.model
    del result
    gc.collect()
    assert len(model.recommend("u3", 2)) == 2
    model.close()
    del model
    gc.collect()
    assert not folder.exists()


def test_estimator_in_a_search(ratings: dict) -> None:
    search = pytest.importorskip("sklearn.model_selection").GridSearchCV(Recommender("private-item-bias", rating_min=1, rating_max=5), {"epsilon": [0.01, 1000]}, cv=2, scoring="neg_root_mean_squared_error")
    X, y = pd.DataFrame({"user": ratings["user"], "item": ratings["item"]}), np.array(ratings["rating"], float)
    assert search.fit(X, y).best_params_ == {"epsilon": 1000}


def test_without_pandas(result: fedsim.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    model = fedsim.Model.load(result.folder)
    assert model.item_embeddings()["embedding"].shape[0] == len(model.item_embeddings()["id"])
    assert len(model.recommend("u1", 2)["item"]) == 2
    assert fedsim.load(result.folder).rounds["round"][0] == 1
    assert len(model.recommend_all(2)["rank"]) == 240
