"""Questions to a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fedsim


def test_recommend_leaves_out_what_was_rated(result: fedsim.Result, ratings: dict) -> None:
    with fedsim.Model.load(result.folder) as model:
        got = model.recommend("u3", 5)
    assert len(got) == 5 and got["score"].is_monotonic_decreasing
    test = {(u, j) for u, j in zip(result.split["user"], result.split["item"])}
    trained = {j for u, j in zip(ratings["user"], ratings["item"]) if u == "u3" and (u, j) not in test}
    assert not trained & set(got["item"])


def test_predict_is_what_the_run_wrote(result: fedsim.Result) -> None:
    p = result.predictions
    assert np.allclose(result.model.predict(p), p["predicted"], atol=1e-12)
    unknown = result.model.predict(["u3", "nobody"], ["nothing", "i1"])
    assert np.isnan(unknown).all()
    with pytest.raises(ValueError, match="2 users and 1 items"):
        result.model.predict(["u1", "u2"], ["i1"])


def test_similar_is_the_cosine_of_embeddings(result: fedsim.Result) -> None:
    e = result.model.item_embeddings()
    unit = e.div(np.linalg.norm(e, axis=1), axis=0)
    want = (unit @ unit.loc["i4"]).drop("i4").nlargest(3)
    got = result.model.similar("i4", 3)
    assert list(got["item"]) == list(want.index)
    assert np.allclose(got["cosine"], want)


def test_lists_of_all_users_as_lenskit_has_them(result: fedsim.Result) -> None:
    all_users = result.model.recommend_all(3)
    assert list(all_users.columns) == ["user", "item", "score", "rank", "predicted"]
    one = all_users[all_users["user"] == "u3"]
    assert list(one["item"]) == list(result.model.recommend("u3", 3)["item"]) and list(one["rank"]) == [1, 2, 3]
    assert list(one.sort_values("score", ascending=False)["rank"]) == [1, 2, 3]
    same = fedsim.compare(result, result.model.recommend_all(100).drop(columns="rank"), "ndcg@10", resamples=200)
    assert same["difference"] == 0 and same["users_better_in_a"] == same["users_better_in_b"] == 0


def test_new_user(result: fedsim.Result) -> None:
    got = result.model.recommend_to({"i1": 5, "i3": 5, "i2": 1}, 4)
    assert len(got) == 4 and not {"i1", "i2", "i3"} & set(got["item"])
    with pytest.raises(fedsim.UsageError, match="the scale is 1 to 5"):
        result.model.recommend_to({"i1": 9})


@pytest.mark.parametrize("form", [pd.Series({"i1": 5, "i3": 5, "i2": 1}), pd.DataFrame({"movieId": ["i1", "i3", "i2"], "rating": [5, 5, 1]}), pd.DataFrame({"user": 7, "item": ["i1", "i3", "i2"], "stars": [5, 5, 1]})])
def test_forms_of_a_profile(form: object, result: fedsim.Result) -> None:
    assert result.model.recommend_to(form, 4).equals(result.model.recommend_to({"i1": 5, "i3": 5, "i2": 1}, 4))


@pytest.mark.parametrize("bad, says", [({"i1": None}, "row 0: the rating is missing"), ({"i1": np.nan}, "row 0: the rating is missing"), ("i1", "the column item is 'i1'"), (7, "the column item is 7"), ({"i1": 10**400}, "is no number")])
def test_profiles_that_cannot_be_used(bad: object, says: str, result: fedsim.Result) -> None:
    with pytest.raises(fedsim.UsageError, match=says):
        result.model.recommend_to(bad)


def test_predict_takes_what_it_needs(result: fedsim.Result) -> None:
    frame = result.predictions[:3]
    want = result.model.predict(frame)
    assert np.array_equal(result.model.predict(frame.assign(rating=np.nan, timestamp=pd.NaT)), want)
    assert np.isfinite(result.model.predict(np.array([None, "u1"], object), ["i1", "i2"])).all()
    for users, items in (("u3", "i1"), (3, 1)):  # and not the letters u and 3
        with pytest.raises(fedsim.UsageError, match=f"the column user is {users!r}; give a list"):
            result.model.predict(users, items)


def test_questions_that_cannot_be_met(result: fedsim.Result) -> None:
    with pytest.raises(fedsim.UsageError, match="not in this run"):
        result.model.similar("nothing")
    with pytest.raises(fedsim.FedsimError, match="it has .*item_embeddings"):
        result.model.matrix("weights")
    with pytest.raises(FileNotFoundError, match="not the folder of a run"):
        fedsim.Model.load("nowhere")


def test_folder_that_is_no_run(tmp_path) -> None:
    with pytest.raises(fedsim.FedsimError, match="not the folder of a finished run"):
        fedsim.Model.load(tmp_path).recommend("ann")


def test_export(result: fedsim.Result, tmp_path) -> None:
    out = result.model.export("csv", tmp_path / "out")
    assert (out / "item_embeddings.csv").exists()
    assert json.loads((result.folder / "item_embeddings.ids.json").read_text()) == list(result.model.item_embeddings().index)
