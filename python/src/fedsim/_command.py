"""Calls the command ``fedsim``."""

from __future__ import annotations

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
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Union

from ._errors import CommandNotFoundError, FedsimError, FedsimWarning, error_of

logger = logging.getLogger("fedsim")

Event = Dict[str, Any]
PathLike = Union[str, "os.PathLike[str]"]

_NAME = "fedsim.exe" if os.name == "nt" else "fedsim"


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
        return said
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
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, set, range)) or hasattr(value, "tolist") and not hasattr(value, "item"):
        return ",".join(setting_value(x) for x in value)
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
        return setting_value(value)
    return str(value)


def setting_flags(values: Mapping[str, Any]) -> List[str]:
    """Return the flags that give settings. None stands for the default."""
    flags: List[str] = []
    for name, value in values.items():
        if value is not None:
            flags += ["--set", f"{setting_name(name)}={setting_value(value)}"]
    return flags


def call(args: Iterable[str], *, env: Optional[Mapping[str, str]] = None) -> str:
    """Run the command to its end and return what it printed."""
    done = subprocess.run(
        [command_path(), *args], capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL, env=environment(env)
    )
    try:
        _told(done.stderr.splitlines(), done.returncode)
    except FedsimError as e:
        e.printed = done.stdout
        raise
    return done.stdout


def call_json(args: Iterable[str], *, env: Optional[Mapping[str, str]] = None) -> Any:
    """Run the command with ``--format json`` and return what it printed."""
    return json.loads(call([*args, "--format", "json"], env=env))


def events(args: Iterable[str], told: Callable[[Event], None], *, env: Optional[Mapping[str, str]] = None) -> Event:
    """Run the command with ``--format jsonl``, tell each event, and return the last one."""
    p = subprocess.Popen(
        [command_path(), *args, "--format", "jsonl"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, encoding="utf-8", env=environment(env),
    )
    assert p.stdout is not None and p.stderr is not None
    said: List[str] = []
    reader = threading.Thread(target=lambda: said.extend(p.stderr or ()), daemon=True)
    reader.start()
    last: Event = {}
    try:
        for line in _lines(p.stdout):
            last = json.loads(line)
            told(last)
        code = p.wait()
    except BaseException:  # such as KeyboardInterrupt: the command cleans up
        p.terminate() if os.name == "nt" else p.send_signal(signal.SIGINT)
        try:
            p.wait(timeout=30)
        except subprocess.TimeoutExpired:
            p.kill()
        raise
    finally:
        p.stdout.close()
        reader.join(timeout=5)
        p.stderr.close()
    _told([line.rstrip("\n") for line in said], code)
    return last


def environment(more: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """Return the variables of this process and more."""
    return {**os.environ, **(more or {})}


def _lines(stream: Iterable[str]) -> Iterator[str]:
    for line in stream:
        if line.strip():
            yield line


def _told(lines: List[str], code: int) -> None:
    """Warn of what the command warned of, and raise its error."""
    kept: List[str] = []
    for line in lines:
        if line.startswith("warning: ") or line.startswith("fedsim: warning: "):
            warnings.warn(line.split("warning: ", 1)[1], FedsimWarning, stacklevel=4)
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
        raise error_of(answer)
    text = "\n".join(kept) or f"it ended with code {code} and said nothing"
    raise error_of({"error": text[len("fedsim: "):] if text.startswith("fedsim: ") else text, "exit": code})


def folder_of(run: Any) -> Path:
    """Return the folder of a run: of a result, a model or a path."""
    folder = getattr(run, "folder", run)
    path = Path(os.fspath(folder))
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not the folder of a run")
    return path


__all__ = ["FedsimError", "call", "call_json", "command_path", "environment", "events", "folder_of", "main", "setting_flags"]
