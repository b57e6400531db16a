"""Ratings on their way in, and tables on their way out."""

from __future__ import annotations

import csv
import datetime
import decimal
import filecmp
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._command import warn
from ._errors import UsageError
from ._ids import Kinds, id_texts, kind_of, missing

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


#: Words for 1 and 0 as ratings, of which all of a column are: those of the command.
_TRUTHS = {
    "true": True, "false": False, "t": True, "f": False, "yes": True, "no": False, "y": True, "n": False, "like": True, "dislike": False,
    "liked": True, "disliked": False, "thumbsup": True, "thumbsdown": False, "up": True, "down": False, "upvote": True, "downvote": False,
    "recommended": True, "notrecommended": False, "positive": True, "negative": False, "\U0001f44d": True, "\U0001f44e": False,
}

#: What stands between the parts of a word, as in thumbs up and thumbs_up.
_JOINTS = str.maketrans("", "", " _-")


# The command takes dates before the year 2 and after 5138 for missing times. As numbers they would have another unit.
_YEAR2, _FAR = -62_104_060_800, 10**11


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


def read_table(lines: Iterable[str], numbers: Sequence[str] = (), kinds: Optional[Kinds] = None) -> "pd.DataFrame":
    """Return the table of a CSV file with a header. Ids have their types, and are texts without them."""
    reader = csv.reader(lines)
    names = next(reader)
    columns: List[Any] = [[] for _ in names]
    for row in reader:
        for column, text in zip(columns, row):
            column.append(text)
    for k, name in enumerate(names):
        if name in numbers:
            columns[k] = [float(x) if x else float("nan") for x in columns[k]]
        elif kinds is not None and name in kinds.kinds:
            columns[k] = kinds.typed(name, columns[k])
    return table(dict(zip(names, columns)))


def columns_in(data: Any, roles: Sequence[str] = tuple(ALIASES)) -> Dict[str, Any]:
    """Return the columns of anything that is a table: name to values.

    Parameters
    ----------
    data : object
        A data frame of pandas or polars, a table of Arrow, a mapping of columns, a list of dicts or of tuples, an array of
        two dimensions, a structured array, or a sparse matrix of SciPy with a row for each user.
    roles : sequence of str
        What the columns of tuples and of arrays are, in order.
    """
    if hasattr(data, "tocoo"):
        coo = data.tocoo()
        return {"user": np.asarray(coo.row), "item": np.asarray(coo.col), "rating": np.asarray(coo.data)}
    if isinstance(data, Mapping):
        return {str(name): list(values) if isinstance(values, Iterator) else values for name, values in data.items()}
    index: Any = getattr(data, "index", None)
    if hasattr(data, "to_frame") and getattr(index, "nlevels", 1) > 1:  # a series by user and item
        return columns_in(data.to_frame("rating" if data.name is None else data.name))
    if hasattr(data, "column_names") and hasattr(data, "to_pydict"):  # of Arrow
        return dict(data.to_pydict())
    if hasattr(data, "columns"):
        levels = [name for name in getattr(index, "names", ()) if name is not None and name not in data.columns]
        return {**{str(name): index.get_level_values(name) for name in levels}, **{str(name): data[name] for name in data.columns}}
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    if isinstance(data, np.ndarray):
        if data.ndim != 2 or not 2 <= data.shape[1] <= len(roles):
            raise UsageError(f"an array of shape {data.shape}; (n, 2) to (n, {len(roles)}) is needed, with the columns {', '.join(roles)}")
        return {role: data[:, k] for k, role in enumerate(roles[: data.shape[1]])}
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        rows = list(data)
        if not rows:
            raise UsageError("there are no rows")
        if all(isinstance(row, Mapping) for row in rows):
            names = dict.fromkeys(str(name) for row in rows for name in row)
            return {name: [row.get(name) for row in rows] for name in names}
        lengths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else 0 for row in rows}
        if len(lengths) == 1 and 2 <= min(lengths) <= len(roles):
            named = getattr(rows[0], "_fields", roles)  # of a namedtuple
            return {str(named[k]): [row[k] for row in rows] for k in range(min(lengths))}
        raise UsageError(f"rows must be dicts, or tuples of {', '.join(roles)} with 2 to {len(roles)} values each")
    raise UsageError(f"a {type(data).__name__} is no table: give a data frame, a mapping of columns, a list of dicts or tuples, an array or a sparse matrix")


def _chosen(data: Any, columns: Optional[Mapping[str, str]], roles: Sequence[str] = tuple(ALIASES)) -> Dict[str, Any]:
    """Return the columns user, item and, if there, rating and timestamp, as they are."""
    there = columns_in(data, roles)
    out = {role: _column(name, there[name]) for role, name in _names(there, columns).items()}
    for role, values in out.items():
        shape = np.shape(values) if isinstance(values, np.ndarray) else ()
        if len(shape) > 1:
            raise UsageError(f"the column {role} has {len(shape)} dimensions; 1 is needed")
    if len({len(values) for values in out.values()}) != 1:
        raise UsageError("the columns differ in length: " + ", ".join(f"{role} has {len(values)}" for role, values in out.items()))
    return out


def _names(there: Mapping[str, Any], columns: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Return the name of each column of ratings that is there, by what the column holds."""
    said = dict(columns or {})
    unknown = set(said) - set(ALIASES)
    if unknown:
        raise UsageError(f"columns: {sorted(unknown)} are no columns of ratings; there are {', '.join(ALIASES)}")
    out: Dict[str, str] = {}
    for role, aliases in ALIASES.items():
        if role in said:
            if str(said[role]) not in there:
                raise UsageError(f"there is no column {said[role]!r}; there are {', '.join(there)}")
            found = [str(said[role])]
        else:
            found = [name for name in there if name.strip().strip('\ufeff"').lower() in aliases and name not in said.values()]
        if len(found) > 1:
            raise UsageError(f"{' and '.join(found)} may each be the column {role}; say columns={{{role!r}: NAME}}")
        if found:
            out[role] = found[0]
    for role in ("user", "item"):
        if role not in out:
            raise UsageError(f"there is no column {role}, only {', '.join(there)}; say columns={{{role!r}: NAME}}")
    return out


def _warn_of_clicks(data: Any, columns: Optional[Mapping[str, str]], roles: Sequence[str]) -> None:
    """Warn as the command does of a file: if rows count as clicks beside a column of numbers or truths."""
    there = columns_in(data, roles)
    names = _names(there, columns)
    others = [name for name, values in there.items() if name not in names.values() and _may_be_ratings(values)]
    if others and "rating" not in names:
        warn(
            f"every row counts as a click, whatever it has in {', '.join(others)}; if that is a rating, name it with "
            f"columns={{'rating': {others[0]!r}}}, and if rows are clicks, leave it out: ratings[[{names['user']!r}, {names['item']!r}]]"
        )


def _may_be_ratings(values: Iterable[Any]) -> bool:
    """Report whether the first value of a column is a number or a truth."""
    first = next((x for x in values if not missing(x)), None)
    try:
        return first is not None and not isinstance(first, (np.datetime64, np.timedelta64)) and bool(_numbers([first]))
    except UsageError:
        return False


def _column(name: str, values: Any) -> Any:
    """Return a column whose rows can be counted. Masked values are None."""
    if hasattr(values, "columns"):
        raise UsageError(f"there is the column {name!r} twice; keep one")
    if isinstance(values, (str, bytes)):
        raise UsageError(f"the column {name} is a text; give a value for each row")
    if isinstance(values, (set, frozenset)):
        raise UsageError(f"the column {name} is a set, which has no order; give a list")
    masks: Any = np.ma  # some versions of NumPy give its functions no types
    if isinstance(values, masks.MaskedArray):
        if not masks.is_masked(values):
            return values.data
        values, gone = values.data.astype(object), masks.getmaskarray(values)
        values[gone] = None
    return values


def columns_of(
    ratings: Any, columns: Optional[Mapping[str, str]] = None, roles: Sequence[str] = tuple(ALIASES), only: Sequence[str] = tuple(ALIASES)
) -> Dict[str, List[Any]]:
    """Return users and items as texts and, if there, ratings and timestamps.

    Parameters
    ----------
    ratings : object
        What :func:`columns_in` takes, with the columns user and item by any name in :data:`ALIASES`.
    columns : mapping, optional
        Other names, such as ``{"user": "visitor", "item": "sku"}``.
    roles : sequence of str
        What the columns of tuples and of arrays are.
    only : sequence of str
        What is needed. Other columns may have missing values.

    Returns
    -------
    dict of str to list
    """
    readers: Dict[str, Callable[[Any], List[Any]]] = {
        "user": lambda x: id_texts(x, "user"), "item": lambda x: id_texts(x, "item"), "rating": _numbers, "timestamp": _times,
    }
    return {role: readers[role](values) for role, values in _chosen(ratings, columns, roles).items() if role in only}


def profile_of(ratings: Any) -> Dict[str, List[Any]]:
    """Return the items of one user as texts and, if there, their ratings: of a mapping, a series by item, a frame, or items alone."""
    index: Any = getattr(ratings, "index", None)
    if isinstance(ratings, Mapping) or hasattr(ratings, "to_frame") and type(index).__name__ != "RangeIndex":  # numbers of rows are no ids
        pairs = list(ratings.items())
        return {"item": id_texts([item for item, _ in pairs], "item"), "rating": [float(x) for x in _numbers([x for _, x in pairs])]}
    if not hasattr(ratings, "columns"):
        return {"item": id_texts(ratings, "item")}
    there = {name: values for name, values in columns_in(ratings).items() if name.lower() not in ALIASES["user"]}
    return columns_of({"user": [""] * len(ratings), **there}, only=("item", "rating"))


def kinds_of(ratings: Any, columns: Optional[Mapping[str, str]] = None, roles: Sequence[str] = tuple(ALIASES)) -> Kinds:
    """Return the types of the ids of ratings; texts for a file."""
    if ratings is None or isinstance(ratings, (str, os.PathLike)):
        return Kinds()
    found = _chosen(ratings, columns, roles)
    return Kinds(kind_of(found["user"]), kind_of(found["item"]))


def _numbers(values: Any) -> List[Any]:
    out: List[Any] = []
    listed = np.asarray(values).tolist() if hasattr(values, "dtype") else list(values)
    truths = [bool(x) if isinstance(x, (bool, np.bool_)) else _TRUTHS.get(x.strip().lower().translate(_JOINTS)) if isinstance(x, str) else None for x in listed]
    if listed and None not in truths:
        return truths  # the command reads the words, and knows by them that the scale is from 0 to 1
    for k, x in enumerate(listed):
        if missing(x):
            raise UsageError(f"row {k}: the rating is missing: it is {x!r}")
        try:
            number = float("no" if isinstance(x, str) and "_" in x else x)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"row {k}: the rating is {x!r}, which is no number; write 4 stars or 4/5 as 4") from None
        if not np.isfinite(number):
            raise UsageError(f"row {k}: the rating is {number}")
        out.append(x if isinstance(x, int) and not isinstance(x, bool) else number)
    return out


def _times(values: Any) -> List[Any]:
    """Return times as seconds since 1970; texts stay, for the command to read."""
    dtype = getattr(values, "dtype", None)
    if dtype is not None and str(dtype).lower().startswith("datetime"):
        array = np.asarray(values, dtype="datetime64[s]") if getattr(dtype, "tz", None) else np.asarray(values)  # which is in UTC
        if array.dtype.kind == "M":
            bad = np.flatnonzero(np.isnat(array))
            if len(bad):
                raise UsageError(f"row {bad[0]}: the timestamp is missing: it is NaT; drop the row, or leave the column out")
            dates = array.astype("datetime64[s]")
            return [x if _YEAR2 <= x < _FAR else str(date) for x, date in zip(dates.astype(np.int64).tolist(), dates)]
    return [_time(k, x) for k, x in enumerate(values.tolist() if isinstance(values, np.ndarray) else list(values))]


def _time(k: int, x: Any) -> Any:
    if missing(x):
        raise UsageError(f"row {k}: the timestamp is missing: it is {x!r}; drop the row, or leave the column out")
    if isinstance(x, datetime.date):
        if not isinstance(x, datetime.datetime):
            x = datetime.datetime(x.year, x.month, x.day)
        at = int((x if x.tzinfo else x.replace(tzinfo=datetime.timezone.utc)).timestamp())
        return at if _YEAR2 <= at < _FAR else x.isoformat()
    if isinstance(x, np.datetime64):
        at = int(x.astype("datetime64[s]").astype(np.int64))
        return at if _YEAR2 <= at < _FAR else str(x)
    if isinstance(x, (float, np.floating)):
        if not np.isfinite(x):
            raise UsageError(f"row {k}: the timestamp is {x}")
        return int(x) if x == np.floor(x) else float(x)
    return x.strip() if isinstance(x, str) else x


def data_file(
    ratings: Any, out: "PathLike", columns: Optional[Mapping[str, str]] = None, items: Any = None, roles: Sequence[str] = tuple(ALIASES)
) -> "Tuple[str, List[str]]":
    """Return the file, the folder or the name that the command reads ratings from, and the features of its items.

    A path and the name of a data set stay as they are, as a whole path if it is there. Other ratings become a file in the folder
    ``ratings`` of `out`, named by the digest of its contents, which only the owner may read: the model's questions read it
    again. With `items` they become a folder of ratings and items.
    """
    if isinstance(ratings, (str, os.PathLike)):
        if items is not None:
            raise UsageError("items describes the items of a frame; beside ratings in a file put a file items.csv")
        path = os.fspath(ratings)
        return (os.path.abspath(path) if os.path.exists(path) else path), []
    found = columns_of(ratings, columns, roles)
    if not found["user"]:
        raise UsageError("there are no rows")
    _warn_of_clicks(ratings, columns, roles)
    kept = Path(os.path.abspath(out)) / "ratings"
    kept.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=kept, suffix=".part"))
    try:
        digest = hashlib.sha256()
        parts = [_write(work / "ratings.csv", list(found), zip(*found.values()), digest)]
        features: List[str] = []
        if items is not None:
            features = _write_items(items, set(found["item"]), work, digest, parts)
        attrs = getattr(ratings, "attrs", None)
        called = re.sub(r"[^\w.-]+", "-", str(attrs["name"])) if isinstance(attrs, dict) and attrs.get("name") else "ratings"
        name = f"{called}-{digest.hexdigest()[:12]}"
        if items is None:
            return str(_keep(parts[0], kept / f"{name}.csv")), []
        folder = kept / name
        folder.mkdir(exist_ok=True)
        for part in parts:
            _keep(part, folder / part.name)
        return str(folder), [str(folder / f) if "." in f else f for f in features]  # names of columns have no dot
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]], digest: Any) -> Path:
    """Write a CSV file for its owner alone, and add its bytes to a digest."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(names)
        w.writerows(rows)
    with open(path, "rb") as b:
        for block in iter(lambda: b.read(1 << 20), b""):
            digest.update(block)
    return path


def _keep(part: Path, path: Path) -> Path:
    """Move a file to its path. One with the same bytes stays there with its time, by which a sweep tells that data changed."""
    if not path.exists() or not filecmp.cmp(part, path, shallow=False):
        os.replace(part, path)
    return path


def _write_items(items: Any, rated: "set[str]", work: Path, digest: Any, parts: List[Path]) -> List[str]:
    """Write what is known of items: titles, genres, years and words to ``items.csv``, and numbers to ``numbers.csv``.

    Returns the features that these describe; none if the command finds them by itself.
    """
    there = columns_in(items, ("item", "title", "genres", "year"))
    ids = [name for name in there if name.strip().lower() in ALIASES["item"] + ("id",)]
    if not ids:
        index: Any = getattr(items, "index", None)
        numbered = type(index).__name__ == "RangeIndex" and index.name is None  # numbers of rows are no ids
        if index is None or callable(index) or numbered or isinstance(items, Mapping):
            told = "; an index of ids needs a name: items.rename_axis('item')" if numbered else "; rename the column of ids to item"
            raise UsageError(f"items: there is no column item, only {', '.join(there)}{told}")
        there, ids = {"item": index, **{name: x for name, x in there.items() if name != index.name}}, ["item"]
    texts = id_texts(there.pop(ids[0]), "item of items")
    if len(set(texts)) != len(texts):
        twice = next(k for k, x in enumerate(texts) if x in texts[:k])
        raise UsageError(f"items: row {twice}: item {texts[twice]!r} is described twice")
    columns, numbers, features = {}, {}, []  # features: more than what the command finds by itself, genres and years
    for name, values in there.items():
        listed = np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)
        if len(listed) != len(texts):
            raise UsageError(f"items: the column {name} has {len(listed)} rows, and {ids[0]} has {len(texts)}")
        known = [x for x in listed if isinstance(x, (list, tuple, np.ndarray)) or not missing(x)]
        low = name.lower()
        name = low if low in ("title", "genres", "year") else re.sub(r"[^\w-]+", "-", name)
        if name not in ("title", "genres", "year") and known and (all(map(_is_vector, known)) or _are_measures(known)):
            numbers[name] = listed
            continue
        columns[name] = [_word(x, name == "year") for x in listed]
        if name not in ("title", "genres", "year") and known:
            features.append(name)
    rows = zip(texts, *columns.values())
    parts.append(_write(work / "items.csv", ["item", *columns], rows, digest))
    if numbers:
        lines = [line for name, listed in numbers.items() for line in _weights(name, texts, listed)]
        parts.append(_write(work / "numbers.csv", ["item_id", "category", "value", "weight"], lines, digest))
        features.append("numbers.csv")
    if not rated & set(texts):
        raise UsageError(f"items describes none of the rated items; its ids are such as {texts[:3]}, and the ratings have {sorted(rated)[:3]}")
    return ["auto", *features] if features else []


def _is_vector(x: Any) -> bool:
    return isinstance(x, (list, tuple, np.ndarray)) and len(x) > 0 and all(isinstance(v, (int, float, np.number)) for v in x)


def _are_measures(values: Sequence[Any]) -> bool:
    """Report whether all values are fractions, and not all of them whole numbers, which are rather names."""
    return all(isinstance(x, (float, np.floating, decimal.Decimal)) for x in values) and any(x != np.floor(x) for x in values)


def _word(x: Any, whole: bool) -> str:
    """Return a cell of ``items.csv``: lists have | between their elements."""
    if isinstance(x, (list, tuple, set, np.ndarray)):
        return "|".join(str(v).replace("|", "/") for v in x)
    if missing(x):
        return ""
    if isinstance(x, datetime.date):
        return str(x.year)
    return str(int(x)) if isinstance(x, (float, np.floating)) and x == int(x) else str(x)


def _weights(name: str, ids: Sequence[str], values: Sequence[Any]) -> "Iterable[Tuple[str, str, str, float]]":
    """Return numbers as weights, which must be positive: a number below its mean has a name of its own. The scale is the deviation."""
    rows = [[float("nan")] if not isinstance(x, (list, tuple, np.ndarray)) and missing(x) else np.atleast_1d(np.asarray(x, float)).tolist() for x in values]
    width = max(map(len, rows))
    for k, row in enumerate(rows):
        if len(row) not in (1, width) or len(row) == 1 < width and row[0] == row[0]:
            raise UsageError(f"items: row {k}: {name} has {len(row)} numbers, and other rows have {width}")
    array = np.array([row if len(row) == width else [float("nan")] * width for row in rows])
    if np.isinf(array).any():
        raise UsageError(f"items: {name} has an infinite number")
    spread = np.nanstd(array)
    scaled = (array - np.nanmean(array, axis=0)) / (spread if spread > 0 else 1)
    for item, row in zip(ids, scaled.tolist()):
        for k, x in enumerate(row):
            if abs(x) > 1e-6:
                yield item, name, f"{k}{'+' if x > 0 else '-'}", round(abs(x), 6)
