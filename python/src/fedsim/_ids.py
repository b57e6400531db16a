"""One rule for ids, in frames, in questions and in tables: the rule by which the command reads them.

An id is a text or a whole number. Spaces and byte order marks around a text do not belong to it, and 7.0 is 7.
Other objects, such as UUIDs and dates, count by their texts. The tables of a run have ids of the frame's type again.
None, NaN, NaT, pandas.NA and the texts that stand for them are missing.
"""

from __future__ import annotations

import datetime
import decimal
import json
import numbers
import re
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import numpy as np

from ._errors import UsageError

_NO_VALUES = {"", "NA", "<NA>", "N/A", "n/a", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NaT", "None", "NULL", "null", "\\N"}
_WHOLE, _LOST = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+"), re.compile(r"-?[0-9](?:\.[0-9]+)?[eE]\+[0-9]+")  # floats as programs write them
_FILE = "python.json"

#: Types of ids that are neither texts nor numbers of a column's own type, each with the function that makes an id of its text.
_BACK: Dict[str, Tuple[Any, Callable[[str], Any]]] = {
    "int": (numbers.Integral, int), "bytes": (bytes, str.encode), "UUID": (uuid.UUID, uuid.UUID), "Decimal": (decimal.Decimal, decimal.Decimal),
    "datetime": (datetime.datetime, datetime.datetime.fromisoformat), "date": (datetime.date, datetime.date.fromisoformat),
}


def missing(x: Any) -> bool:
    """Report whether a value stands for none."""
    if x is None or type(x).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(x, str):
        return x.strip().strip("\ufeff") in _NO_VALUES
    if isinstance(x, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(x))
    return isinstance(x, (float, np.floating)) and bool(x != x)


def id_text(x: Any, place: str = "the id") -> str:
    """Return the text of an id.

    Parameters
    ----------
    x : str, int, float or other object
        The id. Objects such as UUIDs are taken by their text.
    place : str
        How an error names the id, such as "row 3: the user".

    Raises
    ------
    UsageError
        If the id is missing, or a float that is no exact whole number.
    """
    if isinstance(x, bytes):
        try:
            x = x.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{place} is {x!r}, which is not UTF-8") from None
    if missing(x):
        raise UsageError(f"{place} is missing: it is {x!r}")
    if isinstance(x, str):
        text = x.strip().strip("\ufeff").strip()
        if text in _NO_VALUES:
            raise UsageError(f"{place} is missing: it is {x!r}")
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):  # half of a character, such as of a file name that is not UTF-8
            raise UsageError(f"{place} is {x!r}, which is not UTF-8")
        whole = _WHOLE.fullmatch(text)
        if whole and abs(int(whole[1])) < 2**53:
            return "0" if whole[1] == "-0" else whole[1]
        if whole or _LOST.fullmatch(text):
            raise UsageError(f"{place} is {x!r}, a float that is no exact whole number; read the column as whole numbers (Int64) or as texts")
        return text
    if isinstance(x, (bool, np.bool_)):
        raise UsageError(f"{place} is {x!r}; an id is a text or a whole number")
    if isinstance(x, numbers.Integral):
        return str(int(x))
    if isinstance(x, (float, np.floating)):
        bits = np.finfo(type(x)).nmant + 1
        if x != np.floor(x):
            raise UsageError(f"{place} is {x!r}, which is no whole number; an id is a text or a whole number")
        if not abs(float(x)) < 2.0**bits:
            raise UsageError(f"{place} is {x!r}, and such a float holds a whole number exactly only below 2**{bits}; read the column as whole numbers (Int64) or as texts")
        return str(int(x))
    if isinstance(x, np.ndarray) and x.ndim == 0:
        return id_text(x.item(), place)
    if isinstance(x, (list, tuple, dict, set, np.ndarray)):
        raise UsageError(f"{place} is a {type(x).__name__}; an id is a text or a whole number")
    return id_text(str(x), place)


def id_texts(values: Iterable[Any], role: str) -> List[str]:
    """Return the texts of a column of ids. An error names the row."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"the column {role} is {values!r}; give a list of ids")
    dtype = getattr(values, "dtype", None)
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return list(map(str, listed))
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize < 8:
        listed = [dtype.type(x) for x in listed]  # whose precision counts
    known: Dict[Any, str] = {}
    out: List[str] = []
    for k, x in enumerate(listed):
        key = (type(x), x) if type(x) in (str, int) else None
        text = known.get(key) if key is not None else None
        if text is None:
            text = id_text(x, f"row {k}: the {role}")
            if key is not None:
                known[key] = text
        out.append(text)
    return out


def kind_of(values: Any) -> Optional[str]:
    """Return the type that ids of a column come back with; None for texts."""
    dtype: Any = getattr(values, "dtype", None)
    name = str(dtype)
    if getattr(dtype, "kind", "") in ("i", "u", "f") or name.lower() in ("int64", "int32", "int16", "int8", "uint64", "uint32"):
        return name
    if hasattr(dtype, "categories"):
        return kind_of(dtype.categories)
    listed = list(values)
    if not listed or isinstance(listed[0], (str, bool, np.bool_)):
        return None
    if all(isinstance(x, numbers.Integral) for x in listed) and all(-(2**63) <= int(x) < 2**63 for x in listed):
        return "int64"
    if all(isinstance(x, (float, np.floating, numbers.Integral)) for x in listed) and any(isinstance(x, (float, np.floating)) for x in listed):
        return "float64"
    for name, (kind, back) in _BACK.items():
        if all(isinstance(x, kind) for x in listed):
            return name if all(_leads_back(x, back) for x in set(listed)) else None
    return None


def _leads_back(x: Any, back: Callable[[str], Any]) -> bool:
    """Report whether the text of an id makes the id again. The text of a time with nanoseconds does not."""
    try:
        return bool(back(id_text(x)) == x)
    except ValueError:
        return False


class Kinds:
    """The types of users' and items' ids in the tables of a run."""

    def __init__(self, user: Optional[str] = None, item: Optional[str] = None) -> None:
        self.kinds: Dict[str, Optional[str]] = {"user": user, "item": item}

    @classmethod
    def of(cls, folder: Path) -> "Kinds":
        """Return the types that a run's folder states; texts for a run of the command."""
        path = folder / _FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))["ids"]) if path.exists() else cls()

    def keep(self, folder: Path) -> None:
        """Write the types to the folder of a run, unless ids are texts."""
        if any(self.kinds.values()):
            (folder / _FILE).write_text(json.dumps({"ids": self.kinds}) + "\n", encoding="utf-8")

    def typed(self, role: str, texts: Iterable[str]) -> Any:
        """Return ids in the type of the frame that they came with."""
        listed, kind = list(texts), self.kinds[role]
        if kind is None:
            return listed
        try:
            if kind in _BACK:
                return [_BACK[kind][1](x) for x in listed]
            whole = [int(x) for x in listed]
        except (ValueError, ArithmeticError):  # such as of other ratings
            return listed
        try:
            return np.array(whole, dtype=kind)
        except OverflowError:
            return whole
        except TypeError:  # a type of pandas, such as Int64
            from ._frames import pandas

            pd = pandas()
            return pd.array(whole, dtype=kind) if pd is not None else np.array(whole)
