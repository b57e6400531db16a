"""Errors and warnings of the command, as Python raises them."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Sequence, Tuple

__all__ = ["AuditError", "CommandNotFoundError", "FedsimError", "FedsimWarning", "UsageError"]


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


class AuditError(FedsimError):
    """An audit refuted what is stated.

    Attributes
    ----------
    report : dict
        What the audit found, as :func:`fedsim.audit` returns it.
    """

    def __init__(self, message: str, report: Dict[str, Any]) -> None:
        super().__init__(message, 1)
        self.report = report


class CommandNotFoundError(FedsimError):
    """No command ``fedsim`` is in the package, in the variable FEDSIM or on the path."""


def error_of(answer: Dict[str, Any]) -> FedsimError:
    """Return the exception of an error that the command printed as JSON."""
    message = re.sub(r"(?m)^--(set )?(?=[a-z])", "", str(answer["error"]))
    code, keys = int(answer.get("exit", 1)), answer.get("keys", [])
    return (UsageError if code == 2 else FedsimError)(message, code, keys)
