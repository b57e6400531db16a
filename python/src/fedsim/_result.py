"""What a finished run left in its folder."""

from __future__ import annotations

import csv
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

import numpy as np

from ._command import PathLike, folder_of
from ._errors import FedsimError, RunNotFoundError
from ._frames import columns_of, kinds_of, read_table, records, table
from ._html import description
from ._ids import Kinds
from ._model import Model

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """A finished run: its numbers, its rounds and its model.

    Parameters
    ----------
    folder : path
        The folder of the run.
    env : mapping, optional
        Variables for the command, such as of :func:`fedsim.own.command_of`.

    Attributes
    ----------
    folder : Path
        The folder of the run.
    summary : dict
        ``summary.json`` of the folder.
    """

    _home: Optional[str] = None  # a temporary folder, which lasts as long as something refers to it

    def __init__(self, folder: PathLike, env: Optional[Mapping[str, str]] = None) -> None:
        self._env = env
        self.folder: Path = folder_of(folder)
        path = self.folder / "summary.json"
        if not path.exists():
            raise RunNotFoundError(f"{self.folder} is not the folder of a finished run: it has no summary.json")
        self.summary: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self._kinds = Kinds.of(self.folder)

    @property
    def metrics(self) -> Dict[str, float]:
        """dict of str to float : Errors and metrics of lists on the test part, such as ``test_rmse`` and ``ndcg@10``."""
        out = {name: float(x) for name, x in self.summary.items() if name.startswith("test_") and isinstance(x, (int, float))}
        ranking = self.summary.get("ranking") or {}
        out.update({name: float(x) for name, x in ranking.items() if "@" in name})
        return out

    @property
    def ranking(self) -> "pd.DataFrame":
        """DataFrame : Metrics of lists: a row for each metric and length of list, with the columns metric, n and value."""
        names = [name for name in self.summary.get("ranking") or {} if "@" in name]
        parts = [name.rsplit("@", 1) for name in names]
        return table({
            "metric": [metric for metric, _ in parts], "n": [int(n) for _, n in parts],
            "value": [float(self.summary["ranking"][name]) for name in names],
        })

    @property
    def baselines(self) -> Dict[str, float]:
        """dict of str to float : The test RMSE of each baseline, or its Recall@20 with rankings."""
        return dict(self.summary.get("baselines") or {})

    @property
    def privacy(self) -> Optional[Dict[str, Any]]:
        """dict or None : The statement of privacy; None for an algorithm without noise."""
        return self.summary.get("privacy")

    @property
    def epsilon(self) -> float:
        """float : The ε of the run's statement; infinity for an algorithm without noise, or after a plain search for settings."""
        said = (self.privacy or {}).get("epsilon")
        return float("inf") if said is None else float(said)

    @property
    def chosen(self) -> Optional[Dict[str, Any]]:
        """dict or None : The search over the same ratings that chose the settings, such as ``fedsim tune`` makes.

        ``by`` is ``"private"`` or ``"plain"``, and ``run_epsilon`` the ε of the run alone. ``epsilon`` covers a private search.
        After a plain search it is infinite: no ε holds.
        """
        return (self.privacy or {}).get("chosen")

    @property
    def clipping(self) -> Optional[Dict[str, int]]:
        """dict or None : How many vectors an algorithm of one's own computed, and how many were clipped to its bounds."""
        return self.summary.get("clipping")

    @property
    def settings(self) -> Dict[str, str]:
        """dict of str to str : The settings of the run that its summary keeps."""
        return dict(self.summary.get("settings") or {})

    @cached_property
    def rounds(self) -> "pd.DataFrame":
        """DataFrame : A row for each round: errors, ε so far, clients alive, bytes, virtual seconds."""
        text = (self.folder / "metrics.jsonl").read_text(encoding="utf-8")
        rows = []
        for line in text.splitlines():
            row = json.loads(line)
            row.update({f"stage.{name}": x for name, x in (row.pop("stages", None) or {}).items()})
            rows.append(row)
        return records(rows)

    @cached_property
    def split(self) -> "pd.DataFrame":
        """DataFrame : Which ratings were not for training: user, item and part (test, validation or left-out)."""
        with open(self.folder / "split.csv", newline="", encoding="utf-8") as f:
            return read_table(f, kinds=self._kinds)

    @cached_property
    def predictions(self) -> "pd.DataFrame":
        """DataFrame : user, item, rating and predicted of the test part, of a run with ``save_predictions=True``."""
        path = self.folder / "predictions.csv"
        if not path.exists():
            raise FedsimError(f"{self.folder} has no predictions; run with save_predictions=True")
        with open(path, newline="", encoding="utf-8") as f:
            return read_table(f, numbers=("rating", "predicted"), kinds=self._kinds)

    @cached_property
    def model(self) -> Model:
        """Model : The run's model."""
        model = Model(self.folder, env=self._env)
        model._home = self._home
        return model

    def _repr_html_(self) -> str:
        rows: Dict[str, Any] = {"algorithm": self.name, "data": self.summary.get("data"), "ε": f"{self.epsilon:.4g}"}
        if self.privacy:
            rows["statement"] = ", ".join(f"{k}={self.privacy[k]}" for k in ("delta", "unit", "relation", "accountant") if k in self.privacy)
        rows.update({name: f"{x:.4f}" for name, x in self.metrics.items() if name == "test_rmse" or name.endswith("@10")})
        rows.update({f"baseline {name}": f"{x:.4f}" for name, x in self.baselines.items()})
        return description("Result", {**rows, "folder": self.folder})

    @property
    def name(self) -> str:
        """str : The algorithm; of an algorithm of one's own its class and parameters."""
        return str(self.settings.get("external.name") or self.summary.get("algorithm"))

    def __repr__(self) -> str:
        quality = next(((name, x) for name, x in self.metrics.items()), None)
        said = f", {quality[0]}={quality[1]:.4f}" if quality else ""
        return f"<fedsim.Result {self.name} on {self.summary.get('data')}: epsilon={self.epsilon:.4g}{said}, {self.folder}>"


def load(folder: PathLike) -> Result:
    """Return the finished run in a folder.

    Parameters
    ----------
    folder : path
        Such as ``runs/NAME``.

    Returns
    -------
    Result
    """
    return Result(folder)


def split_ratings(result: Result, ratings: Any, columns: Optional[Mapping[str, str]] = None) -> Dict[str, "pd.DataFrame"]:
    """Return ratings by the part that they had in a run.

    Parameters
    ----------
    result : Result
        A finished run.
    ratings : DataFrame or mapping of arrays
        The ratings of the run.
    columns : mapping, optional
        Names of columns, as of :func:`fedsim.run`.

    Returns
    -------
    dict of str to DataFrame
        ``train``, ``validation`` and ``test``.
    """
    found = columns_of(ratings, columns)
    with open(result.folder / "split.csv", newline="", encoding="utf-8") as f:
        part = {(row["user"], row["item"]): row["part"] for row in csv.DictReader(f)}
    of = np.array([part.get(pair, "train") for pair in zip(found["user"], found["item"])], dtype=object)
    kinds, out = kinds_of(ratings, columns), {}
    for name in ("train", "validation", "test"):
        rows = {role: [x for x, p in zip(values, of) if p == name] for role, values in found.items()}
        out[name] = table({role: kinds.typed(role, values) if role in kinds.kinds else values for role, values in rows.items()})
    return out
