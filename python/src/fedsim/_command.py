"""Calls the command ``fedsim``."""

from __future__ import annotations

import enum
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from importlib import resources
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Tuple, Union

import numpy as np

from ._errors import CommandNotFoundError, FedsimError, FedsimWarning, RunNotFoundError, UsageError, error_of, keyword, spelled

logger = logging.getLogger("fedsim")

Event = Dict[str, Any]
PathLike = Union[str, "os.PathLike[str]"]

_NAME = "fedsim.exe" if os.name == "nt" else "fedsim"
_EXACT = 2.0**53
_BEGIN = os.getcwd()  # a program may change its folder later
serving: List[str] = []  # the file whose algorithm this process computes, if it does


def command_path() -> str:
    """Return the path of the command.

    Returns
    -------
    str
        The variable ``FEDSIM``, or else the command in this package, or else ``fedsim`` on the path.

    Raises
    ------
    CommandNotFoundError
        If there is none.
    """
    said = os.environ.get("FEDSIM")
    if said:
        path = os.path.join(_BEGIN, said) if os.path.dirname(said) else shutil.which(said) or said
        if not os.path.isfile(path):
            raise CommandNotFoundError(f"the variable FEDSIM is {said!r}, and there is no such file")
        return path
    inside = str(resources.files("fedsim").joinpath("bin", _NAME))
    if os.path.isfile(inside):
        return inside
    found = shutil.which("fedsim")
    if found and not _is_script(found):
        return found
    raise CommandNotFoundError(
        "there is no command fedsim: install a wheel for this platform, set the variable FEDSIM, or build it with "
        "`go build ./cmd/fedsim` and put it on the path"
    )


def _is_script(path: str) -> bool:
    """Report whether a file is the script of this package, which would call itself for ever."""
    with open(path, "rb") as f:
        return f.read(2) == b"#!"


def main() -> NoReturn:
    """Run the command as the process ``fedsim``."""
    try:
        path = command_path()
    except CommandNotFoundError as e:
        sys.exit(f"fedsim: {e}")
    if os.name == "nt":
        sys.exit(subprocess.call([path, *sys.argv[1:]]))
    os.execv(path, [path, *sys.argv[1:]])


def setting_name(name: str) -> str:
    """Return the key of a keyword: ``eval__top_k`` stands for ``eval.top-k``."""
    return name.replace("__", ".").replace("_", "-")


def setting_value(value: Any) -> str:
    """Return the text of a value; a list has commas between its elements."""
    if isinstance(value, enum.Enum):
        return setting_value(value.value)
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, np.floating):
        value = float(np.format_float_positional(value))  # 0.1 of 32 bits is 0.1
    if isinstance(value, Iterator):
        raise UsageError(f"{value!r} can be read only once; give a list")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return setting_value(value.item())
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        texts = [setting_value(x) for x in value]
        return ",".join(sorted(texts) if isinstance(value, (set, frozenset)) else texts)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:  # so that 1 and 1.0 are one value
        return str(int(value))
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)


def levels_of(settings: Any) -> Dict[str, Any]:
    """Return settings as a dict of their first level."""
    if settings is None:
        return {}
    try:
        return {str(name): value for name, value in dict(settings).items()}
    except (TypeError, ValueError):
        raise UsageError(f"settings is {settings!r}; give a mapping of keys to values, such as yaml.safe_load makes of an experiment file") from None


def _same(a: str, b: str) -> bool:
    """Report whether two texts are one value: 1 and 1.0 are."""
    try:
        return a == b or float(a) == float(b)
    except ValueError:
        return False


def join_settings(settings: Optional[Mapping[str, Any]], *keywords: Mapping[str, Any]) -> Dict[str, str]:
    """Join all ways in which a call of Python gives settings. None stands for the default.

    Parameters
    ----------
    settings : mapping, optional
        Keys of an experiment file. Mappings in it stand for the levels of such a file.
    *keywords : mapping
        The arguments of a function.

    Returns
    -------
    dict of str to str
        The text of each key.

    Raises
    ------
    UsageError
        If a key has two values; the message names both.
    """
    out: Dict[str, str] = {}
    origin: Dict[str, str] = {}

    def add(name: str, value: Any, said: Callable[[str], str]) -> None:
        if isinstance(value, Mapping):
            for below, x in levels_of(value).items():
                add(f"{name}.{below}", x, said)
        elif value is not None:
            key, text, here = setting_name(name), setting_value(value), f"{said(name)}={value!r}"
            if not _same(out.setdefault(key, text), text):
                raise UsageError(f"{key} has two values: {origin[key]} and {here}; give one", 2, [key])
            origin.setdefault(key, here)

    for given in keywords:
        for name, value in given.items():
            add(name, value, keyword)
    for name, value in levels_of(settings).items():
        add(name, value, lambda key: f"settings[{key!r}]")
    return out


def setting_flags(values: Mapping[str, str]) -> List[str]:
    """Return the flags that give settings."""
    flags: List[str] = []
    for key, text in values.items():
        flags += ["--set", f"{key}={text}"]
    return flags


def start(args: Iterable[str], env: Optional[Mapping[str, str]] = None, **more: Any) -> "Tuple[subprocess.Popen[str], int]":
    """Start the command, and return it with a descriptor. The command ends when the descriptor is closed.

    The system closes it however this process ends, so that no command outlives its caller.
    """
    if serving:
        raise FedsimError(
            f"fedsim was called while {serving[0]} was imported for its algorithm, by the process that computes it: the call would repeat "
            'itself for ever. Put the call of fedsim under `if __name__ == "__main__":`'
        )
    path = command_path()
    ours, theirs = os.pipe()
    try:
        p = subprocess.Popen(
            [path, *args], stdin=ours, stderr=subprocess.PIPE, text=True, encoding="utf-8", env={**environment(env), "FEDSIM_TIED": "stdin"}, **more
        )
    except OSError as e:
        os.close(theirs)
        raise CommandNotFoundError(f"{path} cannot be run: {e}") from e
    finally:
        os.close(ours)
    return p, theirs


def call(args: Iterable[str], *, env: Optional[Mapping[str, str]] = None, files: Optional[Dict[str, str]] = None) -> str:
    """Run the command to its end and return what it printed. `files` has Python's names of files, for messages."""
    p, tie = start(args, env, stdout=subprocess.PIPE)
    try:
        with _until_the_end(p):
            printed, said = p.communicate()
    finally:
        os.close(tie)
    try:
        _told(said.splitlines(), p.returncode, files)
    except FedsimError as e:
        e.printed = printed
        raise
    return printed


def call_json(args: Iterable[str], *, env: Optional[Mapping[str, str]] = None, files: Optional[Dict[str, str]] = None) -> Any:
    """Run the command with ``--format json`` and return what it printed."""
    return json.loads(call([*args, "--format", "json"], env=env, files=files))


def events(
    args: Iterable[str], told: Callable[[Event], None], *, env: Optional[Mapping[str, str]] = None, files: Optional[Dict[str, str]] = None
) -> Event:
    """Run the command with ``--format jsonl``, tell each event, and return the last one."""
    p, tie = start([*args, "--format", "jsonl"], env, stdout=subprocess.PIPE)
    assert p.stdout is not None and p.stderr is not None
    said: List[str] = []
    reader = threading.Thread(target=lambda: said.extend(p.stderr or ()), daemon=True)
    reader.start()
    last: Event = {}
    try:
        with _until_the_end(p):
            for line in _lines(p.stdout):
                last = json.loads(line)
                told(last)
            code = p.wait()
    finally:
        os.close(tie)
        p.stdout.close()
        reader.join(timeout=5)
        p.stderr.close()
    _told([line.rstrip("\n") for line in said], code, files)
    return last


class _until_the_end:
    """Interrupts a command if its caller does not wait for its end, such as after KeyboardInterrupt. The command cleans up."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None or self.process.poll() is not None:
            return
        self.process.terminate() if os.name == "nt" else self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def environment(more: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Return the variables of this process and more."""
    return {**os.environ, **(more or {})}


def _lines(stream: Iterable[str]) -> Iterator[str]:
    for line in stream:
        if line.strip():
            yield line


def _told(lines: List[str], code: int, files: Optional[Dict[str, str]] = None) -> None:
    """Warn of what the command warned of, and raise its error."""
    kept: List[str] = []
    for line in lines:
        if line.startswith("warning: ") or line.startswith("fedsim: warning: "):
            warn(spelled(line.split("warning: ", 1)[1], files))
        elif line.startswith("{") and code != 0:
            kept = [line]
        elif line:
            kept.append(line)
    if code == 0:
        for line in kept:
            logger.info(line)
        return
    for line in reversed(kept):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        raise error_of(answer, files)
    text = "\n".join(kept) or f"it ended with code {code} and said nothing"
    raise error_of({"error": text[len("fedsim: "):] if text.startswith("fedsim: ") else text, "exit": code}, files)


def warn(text: str) -> None:
    """Warn at the line of the caller that is outside this package."""
    frame, level = sys._getframe(1), 2
    package = os.path.dirname(__file__)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, FedsimWarning, stacklevel=level)


def folder_of(run: Any) -> Path:
    """Return the folder of a run, of a result, a model or a path. It stays right if the program changes its folder."""
    folder = getattr(run, "folder", run)
    path = Path(os.path.abspath(os.fspath(folder)))
    if not path.is_dir():
        raise RunNotFoundError(f"{folder} is not the folder of a run")
    return path


__all__ = ["FedsimError", "call", "call_json", "command_path", "environment", "events", "folder_of", "join_settings", "main", "setting_flags", "start", "warn"]
