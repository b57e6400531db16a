"""Errors and warnings of the command, as Python raises them. All errors are a :class:`FedsimError`.

Each class can be made of its message alone: copies and pickles are made so, and get the attributes afterwards.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Sequence, Tuple

__all__ = ["AuditError", "CommandNotFoundError", "FedsimError", "FedsimWarning", "NotFittedError", "RunNotFoundError", "UsageError"]


class FedsimWarning(UserWarning):
    """A warning of the command."""


class FedsimError(RuntimeError):
    """The command failed.

    Parameters
    ----------
    message : str
        The message of the command.
    exit_code : int
        Its exit code.
    keys : sequence of str
        The settings that the message is about.

    Attributes
    ----------
    exit_code : int
        1 for a failure, 2 for a request that cannot be met, 130 after an interruption.
    keys : tuple of str
        The settings that the message is about; often empty.
    printed : str
        What the command printed besides.
    """

    def __init__(self, message: str, exit_code: int = 1, keys: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.keys: Tuple[str, ...] = tuple(keys)
        self.printed = ""

    @property
    def key(self) -> Optional[str]:
        """str or None : The first of `keys`."""
        return self.keys[0] if self.keys else None


class UsageError(FedsimError, ValueError):
    """The request cannot be met; the message says which bound fails and what would meet it."""

    def __init__(self, message: str, exit_code: int = 2, keys: Sequence[str] = ()) -> None:
        super().__init__(message, exit_code, keys)


class AuditError(FedsimError):
    """An audit refuted what is stated.

    Attributes
    ----------
    report : dict
        What the audit found, as :func:`fedsim.audit` returns it.
    """

    def __init__(self, message: str, report: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message, 1)
        self.report = report or {}


class CommandNotFoundError(FedsimError, FileNotFoundError):
    """No command ``fedsim`` is in the package, in the variable FEDSIM or on the path."""


class RunNotFoundError(FedsimError, FileNotFoundError):
    """A folder is not there, or holds no finished run."""


_fitted: Tuple[Any, ...] = (UsageError, AttributeError)
try:  # so that programs which catch scikit-learn's error catch this one
    from sklearn.exceptions import NotFittedError as _NotFitted

    _fitted = (UsageError, _NotFitted)
except ImportError:
    pass

NotFittedError: Any = type("NotFittedError", _fitted, {"__doc__": "An estimator was asked before it was fitted.", "__module__": __name__})


def error_of(answer: Dict[str, Any], files: Optional[Dict[str, str]] = None) -> FedsimError:
    """Return the exception of an error that the command printed as JSON. `files` has Python's names of files."""
    code, keys = int(answer.get("exit", 1)), answer.get("keys", [])
    return (UsageError if code == 2 else FedsimError)(spelled(str(answer["error"]), files, keys), code, keys)


def spelled(text: str, files: Optional[Dict[str, str]] = None, keys: Sequence[str] = ()) -> str:
    """Return a message of the command in the words of Python: keywords for flags, and rows of a frame for lines of its file."""
    for path, name in (files or {}).items():
        base = re.escape(path.rsplit("/", 1)[-1])
        row = re.compile(rf"(?:\S*/)?{base}(?:/[\w-]+\.csv)?:(\d+)")
        if re.search(base, text):
            text = re.sub(r"\bon line (\d+)", lambda m: f"in row {int(m[1]) - 2}", text)
        text = row.sub(lambda m: f"row {int(m[1]) - 2} of {name}", text)
        text = re.sub(rf"(?:\S*/)?{base}(?:/[\w-]+\.csv)?", name, text)
    if files:  # what a notice counts stands in a table of Python's too
        text = re.sub(r"; lines? [\d., ]+$", lambda m: re.sub(r"\d+", lambda n: str(int(n[0]) - 2), m[0].replace("line", "row")), text)
    text = re.sub(r"(?m)--set ([a-z][a-z0-9.-]*)(?==)", lambda m: keyword(m[1]), text)
    text = re.sub(r"(?<![\w-])--(?:set )?([a-z][a-z0-9.-]*[a-z0-9])", lambda m: keyword(m[1]), text)
    text = re.sub(r"(?<=similar names: )[\w., -]+", lambda m: ", ".join(map(keyword, m[0].split(", "))), text)
    for key in (*keys, "rating-min", "rating-max"):  # messages about a scale name these two without dashes before them
        if "." in key or "-" in key:
            text = re.sub(rf"(?<![\w.-]){re.escape(key)}(?![\w-]|\.\w)", keyword(key), text)
    return text


def keyword(key: str) -> str:
    """Return the keyword of a key: ``eval__top_k`` for ``eval.top-k``."""
    return key.replace(".", "__").replace("-", "_")
