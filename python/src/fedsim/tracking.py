"""Callbacks that keep the numbers of every round where other programs show them.

Each is an element of ``callbacks`` of :func:`fedsim.run`. A round gives its errors and the ε so far, the end gives the
metrics of the summary.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any, BinaryIO, Dict, List, Optional

from ._command import PathLike
from ._errors import UsageError

__all__ = ["MLflow", "TensorBoard", "WandB"]

Event = Dict[str, Any]


def numbers_of(event: Event) -> Dict[str, float]:
    """Return the numbers of a round, or of the end of a run.

    Parameters
    ----------
    event : dict
        As the command prints it with ``--format jsonl``.

    Returns
    -------
    dict of str to float
        Empty for other events.
    """
    kind = event.get("event")
    if kind not in ("round", "summary"):
        return {}
    out = {k: float(x) for k, x in event.items() if isinstance(x, (int, float)) and not isinstance(x, bool) and k != "round"}
    if kind == "summary":
        out = {k: x for k, x in out.items() if k.startswith("test_")}
        out.update({k.replace("@", "_at_"): float(x) for k, x in (event.get("ranking") or {}).items() if "@" in k and isinstance(x, (int, float))})
        spent = (event.get("privacy") or {}).get("epsilon")
        if isinstance(spent, (int, float)):
            out["epsilon"] = float(spent)
    return out


class _Tracker:
    """What the callbacks have in common: the number of the round."""

    def __init__(self) -> None:
        self.step = 0

    def __call__(self, event: Event) -> None:
        if event.get("event") == "settings":
            self.settings(event["settings"])
            return
        if event.get("event") == "round":
            self.step = int(event["round"])
        found = numbers_of(event)
        if found:
            self.log(found, self.step)

    def settings(self, settings: Dict[str, str]) -> None:
        """Take the settings of a run."""

    def log(self, numbers: Dict[str, float], step: int) -> None:
        """Take the numbers of a round."""
        raise NotImplementedError


def _module(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise UsageError(f"the package {name} is not installed: pip install fedsim[{name}]") from None


class MLflow(_Tracker):
    """Log to the active run of MLflow, or to one that is started and ended here.

    Parameters
    ----------
    **start
        Arguments of ``mlflow.start_run``.
    """

    def __init__(self, **start: Any) -> None:
        super().__init__()
        self._mlflow = _module("mlflow")
        self._ours = self._mlflow.active_run() is None
        if self._ours:
            self._mlflow.start_run(**start)

    def settings(self, settings: Dict[str, str]) -> None:
        """Log the settings as parameters."""
        self._mlflow.log_params(settings)

    def log(self, numbers: Dict[str, float], step: int) -> None:
        """Log the numbers as metrics."""
        self._mlflow.log_metrics(numbers, step=step)

    def close(self) -> None:
        """End the run that was started here."""
        if self._ours:
            self._mlflow.end_run()


class WandB(_Tracker):
    """Log to the active run of Weights & Biases, or to one that is started and ended here.

    Parameters
    ----------
    **init
        Arguments of ``wandb.init``, such as ``project`` and ``mode="offline"``.
    """

    def __init__(self, **init: Any) -> None:
        super().__init__()
        self._wandb = _module("wandb")
        self._ours = self._wandb.run is None
        if self._ours:
            self._wandb.init(**init)

    def settings(self, settings: Dict[str, str]) -> None:
        """Keep the settings as the configuration."""
        self._wandb.config.update(settings)

    def log(self, numbers: Dict[str, float], step: int) -> None:
        """Log the numbers."""
        self._wandb.log(numbers, step=step)

    def close(self) -> None:
        """End the run that was started here."""
        if self._ours:
            self._wandb.finish()


class TensorBoard(_Tracker):
    """Write an event file, which TensorBoard shows and ``wandb sync`` uploads. No package is needed.

    The file has the records of TFRecord, with an ``Event`` of TensorFlow's ``event.proto`` in each.

    Parameters
    ----------
    folder : path
        The log folder of this run. Give each run a folder of its own.
    """

    def __init__(self, folder: PathLike) -> None:
        super().__init__()
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{id(self)}"
        self.path = os.path.join(os.path.abspath(folder), name)
        self._file: Optional[BinaryIO] = open(self.path, "xb")
        self._record(_text(3, b"brain.Event:2"))

    def settings(self, settings: Dict[str, str]) -> None:
        """Keep the settings as a text."""
        lines = "\n".join(f"{k}: {x}  " for k, x in settings.items()).encode()
        tensor = _number(1, 7) + _text(2, b"") + _text(8, lines)  # a DT_STRING without dimensions
        metadata = _text(9, _text(1, _text(1, b"text")))
        self._record(_text(5, _text(1, _text(1, b"settings") + metadata + _text(8, tensor))))

    def log(self, numbers: Dict[str, float], step: int) -> None:
        """Write the numbers as scalars."""
        values = b"".join(_text(1, _text(1, k.encode()) + b"\x15" + struct.pack("<f", x)) for k, x in numbers.items())
        self._record(_number(2, step) + _text(5, values))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _record(self, event: bytes) -> None:
        assert self._file is not None
        event = b"\x09" + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(event))
        self._file.write(length + struct.pack("<I", _masked(length)) + event + struct.pack("<I", _masked(event)))
        self._file.flush()


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _number(field: int, n: int) -> bytes:
    """Return a field of Protocol Buffers with a whole number."""
    return _varint(field << 3) + _varint(n)


def _text(field: int, b: bytes) -> bytes:
    """Return a field of Protocol Buffers with bytes."""
    return _varint(field << 3 | 2) + _varint(len(b)) + b


def _table() -> List[int]:
    out = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        out.append(n)
    return out


_CRC = _table()


def _masked(b: bytes) -> int:
    """Return the masked CRC-32C of a record of TFRecord."""
    crc = 0xFFFFFFFF
    for x in b:
        crc = _CRC[(crc ^ x) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
