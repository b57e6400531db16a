"""Shows how far a command is."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Mapping, Sequence, Union

Event = Dict[str, Any]
Callback = Callable[[Event], None]
Progress = Union[None, bool, Callback]


@contextmanager
def telling(progress: Progress, callbacks: Sequence[Callback], settings: Mapping[str, str]) -> Iterator[Callback]:
    """Tell progress and callbacks each event, settings before the first. A callback with ``close`` is closed at the end."""
    tell = teller(progress)

    def all(event: Event) -> None:
        for told in (tell, *callbacks):
            told(event)

    for told in callbacks:
        told({"event": "settings", "settings": dict(settings)})
    try:
        yield all
    finally:
        for told in callbacks:
            getattr(told, "close", _nothing)()


def _nothing() -> None:
    """Close nothing."""


def teller(progress: Progress) -> Callable[[Event], None]:
    """Return what events are told to: a bar, a function of the caller, or nothing."""
    if progress is not None and not isinstance(progress, bool):
        return progress
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook()
    if progress:
        return Bar()
    return _quiet


def _quiet(event: Event) -> None:
    """Show nothing."""


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


class Bar:
    """A line on stderr that is drawn over: phase, bar, rounds, error so far and ε spent."""

    width = 24

    def __init__(self) -> None:
        self.phase, self.total, self.done = "", 0, 0
        self.note, self.drawn, self.long = "", 0.0, 0

    def __call__(self, event: Event) -> None:
        kind = event.get("event")
        if kind == "phase":
            self.phase, self.total, self.done, self.note = str(event["phase"]), int(event.get("rounds", 0)), 0, ""
        elif kind == "step":
            self.done = int(event["done"])
        elif kind == "round":
            self.done = int(event["round"])
            self.note = "".join(f"  {name} {event[key]:.4g}" for name, key in (("rmse", "rmse"), ("ε", "epsilon")) if event.get(key) is not None)
        elif kind in ("summary", "sweep"):
            self._write("")
            return
        elif kind == "note":
            self._write("")
            sys.stderr.write(str(event["text"]) + "\n")
            return
        if kind == "phase" or self.done >= self.total or time.monotonic() - self.drawn > 0.1:
            self._draw()

    def _draw(self) -> None:
        self.drawn = time.monotonic()
        text = self.phase
        if self.total:
            filled = min(self.width, self.width * self.done // self.total)
            text += f" [{'#' * filled}{'.' * (self.width - filled)}] {self.done}/{self.total}{self.note}"
        self._write(text)

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text + " " * (self.long - len(text)) + ("\r" if not text else ""))
        sys.stderr.flush()
        self.long = len(text)


