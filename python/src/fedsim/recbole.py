"""Atomic files of RecBole: ``user_id:token``, ``item_id:token``, ``rating:float``, ``timestamp:float``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from ._command import PathLike
from ._frames import columns_of, table
from ._result import Result, split_ratings

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read", "write", "write_split"]

_NAMES = {"user": "user_id:token", "item": "item_id:token", "rating": "rating:float", "timestamp": "timestamp:float"}


def read(path: PathLike) -> "pd.DataFrame":
    """Read an ``.inter`` file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    DataFrame
        With the columns user, item and, if there, rating and timestamp, which :func:`fedsim.run` takes.
    """
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows:
        raise ValueError(f"{path} is empty")
    roles = {name: role for role, name in _NAMES.items()}
    out: Dict[str, List[Any]] = {}
    for k, name in enumerate(rows[0]):
        if name in roles:
            values = [row[k] for row in rows[1:]]
            out[roles[name]] = [float(x) for x in values] if name.endswith(":float") else values
    missing = [name for role, name in _NAMES.items() if role in ("user", "item") and role not in out]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]}; it has {', '.join(rows[0])}")
    return table(out)


def write(ratings: Any, path: PathLike, columns: Optional[Mapping[str, str]] = None) -> Path:
    """Write ratings as an ``.inter`` file.

    Parameters
    ----------
    ratings : DataFrame or mapping of arrays
        As of :func:`fedsim.run`.
    path : path
        The file to write.
    columns : mapping, optional
        Names of columns.

    Returns
    -------
    Path
        The file.
    """
    found = columns_of(ratings, columns)
    for role in ("user", "item"):
        for x in found[role]:
            if "\t" in str(x) or "\n" in str(x):
                raise ValueError(f"the {role} {x!r} has a tab or the end of a line, which an atomic file cannot hold")
    with open(path, "w", newline="", encoding="utf-8") as f:
        f.write("\t".join(_NAMES[role] for role in found) + "\n")
        f.writelines("\t".join(str(int(x) if isinstance(x, bool) else x) for x in row) + "\n" for row in zip(*found.values()))
    return Path(path)


def write_split(result: Result, ratings: Any, folder: PathLike, columns: Optional[Mapping[str, str]] = None) -> Path:
    """Write the ratings of a run by their parts, for RecBole's ``benchmark_filename: [train, valid, test]``.

    Parameters
    ----------
    result : Result
        A finished run.
    ratings : DataFrame or mapping of arrays
        Its ratings.
    folder : path
        The folder to write; its name is the name of RecBole's data set.
    columns : mapping, optional
        Names of columns.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = split_ratings(result, ratings, columns)
    for ours, theirs in (("train", "train"), ("validation", "valid"), ("test", "test")):
        write(parts[ours], folder / f"{folder.name}.{theirs}.inter")
    return folder
