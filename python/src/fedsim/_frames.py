"""Ratings on their way in, and tables on their way out."""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from ._command import PathLike

#: Names of columns that are understood: of fedsim, LensKit, MovieLens and RecBole.
ALIASES: Dict[str, Tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "user_id:token"),
    "item": ("item", "item_id", "itemid", "iid", "movieid", "movie_id", "item_id:token"),
    "rating": ("rating", "rating:float", "stars", "value"),
    "timestamp": ("timestamp", "timestamp:float", "time", "datetime"),
}


def pandas() -> Any:
    """Return the module pandas; None without it."""
    try:
        import pandas as pd
    except ImportError:
        return None
    return pd


def table(columns: Mapping[str, Any]) -> "pd.DataFrame":
    """Return a data frame, or without pandas a dict of arrays."""
    pd = pandas()
    if pd is None:
        return {name: np.asarray(values) for name, values in columns.items()}
    return pd.DataFrame(dict(columns))


def records(rows: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return a table of objects, with a column for each name."""
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)
    return table({name: [row.get(name) for row in listed] for name in names})


def read_table(lines: Iterable[str], numbers: Sequence[str] = ()) -> "pd.DataFrame":
    """Return the table of a CSV file with a header. Ids stay texts."""
    reader = csv.reader(lines)
    names = next(reader)
    columns: List[List[Any]] = [[] for _ in names]
    for row in reader:
        for column, text in zip(columns, row):
            column.append(text)
    for k, name in enumerate(names):
        if name in numbers:
            columns[k] = [float(x) if x else float("nan") for x in columns[k]]
    return table(dict(zip(names, columns)))


def columns_of(ratings: Any, columns: Optional[Mapping[str, str]] = None) -> Dict[str, List[Any]]:
    """Return users, items and, if there, ratings and timestamps.

    Parameters
    ----------
    ratings : DataFrame or mapping of arrays
        With the columns user and item, by any name in :data:`ALIASES`.
    columns : mapping, optional
        Other names, such as ``{"user": "visitor", "item": "sku"}``.

    Returns
    -------
    dict of str to list
    """
    there = [str(name) for name in (ratings.columns if hasattr(ratings, "columns") else ratings)]
    said = dict(columns or {})
    unknown = set(said) - set(ALIASES)
    if unknown:
        raise ValueError(f"columns: {sorted(unknown)} are no columns of ratings; there are {', '.join(ALIASES)}")
    out: Dict[str, List[Any]] = {}
    for role, aliases in ALIASES.items():
        if role in said:
            if said[role] not in there:
                raise ValueError(f"there is no column {said[role]!r}; there are {', '.join(there)}")
            found = [said[role]]
        else:
            found = [name for name in there if name.lower() in aliases and name not in said.values()]
        if len(found) > 1:
            raise ValueError(f"{' and '.join(found)} may each be the column {role}; say columns={{{role!r}: NAME}}")
        if found:
            out[role] = _listed(role, ratings[found[0]])
    for role in ("user", "item"):
        if role not in out:
            raise ValueError(f"there is no column {role}, only {', '.join(there)}; say columns={{{role!r}: NAME}}")
    if len({len(values) for values in out.values()}) != 1:
        raise ValueError("the columns differ in length: " + ", ".join(f"{role} has {len(values)}" for role, values in out.items()))
    return out


def _listed(role: str, values: Any) -> List[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"the column {role} has {array.ndim} dimensions; 1 is needed")
    if array.dtype.kind == "M":
        array = array.astype("datetime64[s]").astype(np.int64)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            raise ValueError(f"row {bad[0]}: the {role} is {array[bad[0]]}")
        if role in ("user", "item", "timestamp") and np.all(array == np.floor(array)):
            array = array.astype(np.int64)
    listed: List[Any] = array.tolist()
    if array.dtype.kind == "O":
        for k, x in enumerate(listed):
            if x is None or x != x:
                raise ValueError(f"row {k}: the {role} is missing")
    return listed


def data_file(ratings: Any, out: "PathLike", columns: Optional[Mapping[str, str]] = None) -> str:
    """Return the file or the name that the command reads ratings from.

    A path and the name of a data set stay as they are. Other ratings become a file in the folder ``ratings`` of `out`,
    named by the digest of its contents, which only the owner may read: the model's questions read it again.
    """
    if isinstance(ratings, (str, os.PathLike)):
        return os.fspath(ratings)
    found = columns_of(ratings, columns)
    folder = Path(out) / "ratings"
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with open(handle, "w", newline="", encoding="utf-8") as f:
            w = csv.writer(f, lineterminator="\n")
            w.writerow(found)
            w.writerows(zip(*found.values()))
        with open(name, "rb") as b:
            digest = hashlib.sha256()
            for block in iter(lambda: b.read(1 << 20), b""):
                digest.update(block)
        path = folder / f"ratings-{digest.hexdigest()[:12]}.csv"
        os.replace(name, path)
    except BaseException:
        if os.path.exists(name):
            os.unlink(name)
        raise
    return str(path)
