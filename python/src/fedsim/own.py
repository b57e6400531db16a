"""Own algorithms in Python, under real secure sums and exact accounting.

A subclass of :class:`Algorithm` states what a user sends and computes it. fedsim runs the class in a process of its own and
does the rest: it clips each vector to the declared bound and counts how often it had to, calibrates the noise, masks, drops
clients, and accounts for every release. ``algorithm/external/external.md`` describes the protocol of the process.
"""

from __future__ import annotations

import ast
import atexit
import functools
import inspect
import io
import json
import math
import numbers
import os
import runpy
import select
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np
from numpy.lib import format as _format

from ._command import serving
from ._errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = ["Algorithm", "Problem", "Release", "Users", "command_of", "serve"]

VERSION = 1
_npy: Any = _format  # which has no types
_BATCH, _FEWEST = 1 << 19, 16  # bytes of a batch, and users at least: twice as fast as batches of megabytes
_SPARSE = 0.25  # the share of coordinates other than zero from which on an array is sent whole


@dataclass(frozen=True)
class Release:
    """What a user sends in a round.

    Parameters
    ----------
    length : int
        Coordinates of the vector.
    l2 : float
        The largest L2 norm of one user's vector. A vector beyond it is shrunk to it.
    l1, linf : float, optional
        Bounds of the L1 norm and of a coordinate, which may lower the noise.
    non_zero : int, optional
        The most coordinates other than zero. Default: all.
    scale : float, optional
        Integers are the values times this. Default: so that rounding costs 0.1 to 1% more noise.
    rounds : int, optional
        Of a phase: how many rounds it has. The last phase has the rounds that are left.
    phase : str
        The name of the phase.
    """

    length: int
    l2: float
    l1: float = 0.0
    linf: float = 0.0
    non_zero: int = 0
    scale: float = 0.0
    rounds: int = 0
    phase: str = "sum"

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            kind, words = _KINDS.get(name, (numbers.Real, "a finite number"))
            if not isinstance(value, kind) or kind is not str and not math.isfinite(value):
                raise ValueError(f"Release: {name} is {value!r}; it must be {words}")
            if hasattr(value, "item"):  # of NumPy
                object.__setattr__(self, name, value.item())


_KINDS: "Dict[str, Tuple[Any, str]]" = {
    "phase": (str, "a text"), **dict.fromkeys(("length", "non_zero", "rounds"), (numbers.Integral, "a whole number"))
}


@dataclass(frozen=True)
class Problem:
    """What is public before the first round.

    Attributes
    ----------
    item_ids : tuple of str
        The items, in the order of their numbers.
    rating_min, rating_max : float
        The scale.
    rounds : int
        How many rounds there will be.
    seed : int
        The seed of the run.
    features : ndarray of shape (items, f)
        The public features of the items, with a weight where an item has one: f is 0 without any.
    feature_names : tuple of (str, str)
        The category and the value of each column, such as ``("genres", "Comedy")``.
    """

    item_ids: Tuple[str, ...]
    rating_min: float
    rating_max: float
    rounds: int
    seed: int
    features: Any = None
    feature_names: Tuple[Tuple[str, str], ...] = ()

    @property
    def items(self) -> int:
        """int : How many items there are."""
        return len(self.item_ids)


class Users:
    """The ratings of a batch of users.

    Attributes
    ----------
    start : ndarray of int
        The ratings of user u are ``item[start[u]:start[u + 1]]``, and likewise `rating`.
    item : ndarray of int
        The numbers of the items, ascending for each user.
    rating : ndarray of float
        The ratings.
    row : ndarray of int
        The user of each rating.
    """

    def __init__(self, start: Any, item: Any, rating: Any) -> None:
        self.start, self.item, self.rating = np.asarray(start), np.asarray(item), np.asarray(rating)
        self.row = np.repeat(np.arange(len(self)), np.diff(self.start))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __iter__(self) -> "Iterator[Tuple[npt.NDArray[np.int64], Floats]]":
        for a, b in zip(self.start[:-1], self.start[1:]):
            yield self.item[a:b], self.rating[a:b]

    def dense(self, items: int, missing: float = 0.0) -> "Floats":
        """Return the ratings as an array.

        Parameters
        ----------
        items : int
            How many items there are.
        missing : float
            What stands for no rating.

        Returns
        -------
        ndarray of shape (n, items)
        """
        out = np.full((len(self), items), missing)
        out[self.row, self.item] = self.rating
        return out


_STATE = ("problem", "round", "phase", "survivors")  # attributes that fedsim sets


class Algorithm:
    """An algorithm of one's own.

    A subclass has the methods `release`, `start`, `contribute`, `absorb` and `predict`. Parameters are attributes of the class,
    and keywords of the constructor replace them. The methods must be pure: the same arguments give the same result, and a row of
    `contribute` follows from its user's ratings and the model alone. ε rests on it. fedsim asks a few users again, alone and in
    another process, and ends the run if a row differs. `absorb` runs in a process that has seen no ratings.

    Parameters
    ----------
    **params
        Values of attributes that the class has: numbers, texts and lists of them.

    Attributes
    ----------
    problem : Problem
        What is public.
    round : int
        The number of the round, from 1, in `contribute` and `absorb`.
    phase : str
        The phase of the round, in `contribute` and `absorb`.
    survivors : int
        How many users are in the sum, in `absorb`.
    rounds : int
        How many rounds there are unless a run says otherwise.

    Examples
    --------
    >>> result = fedsim.run(ratings, algorithm=FedMF(rank=8), epsilon=5)  # doctest: +SKIP
    """

    rounds: int = 10
    problem: Problem
    round: int = 0
    phase: str = ""
    survivors: int = 0

    def __init__(self, **params: Any) -> None:
        for name, value in params.items():
            if not hasattr(type(self), name) or name.startswith("_"):
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)

    @property
    def params(self) -> Dict[str, Any]:
        """dict of str to object : The parameters of this instance, given to the constructor or set since, as the algorithm's own process gets them."""
        taken = set(inspect.signature(type(self).__init__).parameters)
        said = {name: x for name, x in vars(self).items() if (name in taken or hasattr(type(self), name)) and name[0] != "_" and name not in _STATE}
        return {name: x.tolist() if hasattr(x, "tolist") else x for name, x in said.items()}

    def release(self) -> "Union[Release, List[Release]]":
        """Return what a user sends in a round; or a list, with a release for each phase. ``self.phase`` has the name of the round's."""
        raise NotImplementedError(f"{type(self).__name__} has no method release")

    def start(self) -> "Floats":
        """Return the model before the first round, an array of one or two dimensions."""
        raise NotImplementedError(f"{type(self).__name__} has no method start")

    def contribute(self, users: Users, model: "Floats") -> "Floats":
        """Return an array of shape (n, length): a row for each user."""
        raise NotImplementedError(f"{type(self).__name__} has no method contribute")

    def absorb(self, sum: "Floats", model: "Floats") -> "Floats":
        """Return the next model, by the noisy sum over the users who did not drop out."""
        raise NotImplementedError(f"{type(self).__name__} has no method absorb")

    def predict(self, users: Users, model: "Floats") -> "Floats":
        """Return an array of shape (n, items): what each user would give to each item."""
        raise NotImplementedError(f"{type(self).__name__} has no method predict")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})"


def command_of(algorithm: Algorithm) -> Dict[str, str]:
    """Return the environment in which the command runs an algorithm.

    Parameters
    ----------
    algorithm : Algorithm
        An instance of a class that stands in a file.

    Returns
    -------
    dict of str to str
        The variable ``FEDSIM_EXTERNAL``.
    """
    cls = type(algorithm)
    try:
        file = inspect.getfile(cls)
    except (OSError, TypeError):
        file = ""
    if not os.path.isfile(file) or "<locals>" in cls.__qualname__:
        raise UsageError(
            f"{cls.__qualname__} must stand in a file, since a process of its own runs it: in a notebook begin its cell with "
            "`%%writefile mine.py`, and import it from there"
        )
    try:
        params = json.dumps(algorithm.params)
    except TypeError:
        raise UsageError(f"{algorithm!r}: parameters are numbers, texts and lists of them") from None
    words = [sys.executable, "-m", "fedsim.serve", os.path.abspath(file), cls.__qualname__, params]
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    return {"FEDSIM_EXTERNAL": json.dumps(words), "PYTHONPATH": os.pathsep.join(p for p in paths if p)}


def serve(algorithm: Algorithm, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until their end.

    Parameters
    ----------
    algorithm : Algorithm
        What computes.
    requests, replies : binary files
        The pipes to and from fedsim.
    """
    shape: Tuple[int, ...] = ()
    while True:
        request = _read(requests)
        if request is None:
            return
        head, arrays = request
        try:
            if head.get("fedsim") != VERSION:
                raise RuntimeError(f"the command speaks version {head.get('fedsim')} of the protocol, and this package version {VERSION}")
            algorithm.round, algorithm.survivors = int(head.get("round", 0)), int(head.get("survivors", 0))
            model = arrays["model"].reshape(shape) if "model" in arrays else None
            reply, out = _answer(algorithm, head, arrays, model)
            if head["type"] == "open":
                shape = out["model"].shape
            if "model" in out:
                out["model"] = out["model"].reshape(out["model"].shape[0], -1) if out["model"].ndim != 1 else out["model"][:, None]
        except Exception as e:
            reply, out = {"type": "error", "error": _said(e)}, {}
        _write(replies, reply, out)


_GRACE = 0.1  # seconds for a process to end by itself


def _end_with(pipe: int) -> None:
    """End this process and the processes that it started when the writer of a pipe ends, even if it still computes.

    Without ``poll``, as on Windows, the process ends after the request that it computes.
    """
    if not hasattr(select, "poll"):
        return
    parent, hang_up = os.getppid(), select.poll()
    hang_up.register(pipe, 0)

    def watch() -> None:
        while not hang_up.poll(500) and os.getppid() == parent:
            pass
        time.sleep(_GRACE)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _end_others() -> None:
    """End the processes that an algorithm started and left."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def _answer(a: Algorithm, head: Mapping[str, Any], arrays: Mapping[str, Any], model: Any) -> "Tuple[Dict[str, Any], Dict[str, Any]]":
    """Answer one request."""
    kind = head["type"]
    if kind == "open":
        p = head["problem"]
        ids = tuple(p["item_ids"])
        a.problem = Problem(ids, p["rating_min"], p["rating_max"], p["rounds"], p["seed"], *_features(len(ids), p.get("features") or ()))
        phases = [{"name" if k == "phase" else k: x for k, x in vars(r).items()} for r in _phases(a)]
        return {"type": "opened", "name": type(a).__name__, "phases": phases}, {"model": _model(a.start(), "start")}
    a.phase = _phase(a).phase
    if kind == "absorb":
        return {"type": "absorbed"}, {"model": _model(a.absorb(arrays["sum"], model), "absorb")}
    users = Users(arrays["start"], arrays["item"], arrays["rating"])
    if kind == "predict":
        return {"type": "predicted"}, {"predicted": _predicted(a, users, model, arrays)}
    if kind == "contribute":
        return {"type": "contributed"}, _contributed(a, users, model)
    raise RuntimeError(f"there is no request {kind!r}")


def _phases(a: Algorithm) -> List[Release]:
    """Return the releases of an algorithm, one for each phase."""
    r = a.release()
    phases = list(r) if isinstance(r, (list, tuple)) else [r]
    if not phases or not all(isinstance(p, Release) for p in phases):
        raise TypeError(f"release returned {type(r).__name__}; a Release, or a list with one for each phase, is needed")
    return phases


def _phase(a: Algorithm) -> Release:
    """Return the release of the round."""
    phases, last = _phases(a), 0
    for p in phases[:-1]:
        last += p.rounds
        if a.round <= last:
            return p
    return phases[-1]


def _features(items: int, categories: Any) -> "Tuple[Floats, Tuple[Tuple[str, str], ...]]":
    """Return the features of items as an array, and the names of its columns."""
    names = tuple((c["name"], value) for c in categories for value in c["values"])
    out, at = np.zeros((items, len(names))), 0
    for c in categories:
        row = np.repeat(np.arange(items), np.diff(c["start"]))
        out[row, at + np.asarray(c["value"], dtype=int)] = c["weight"]
        at += len(c["values"])
    return out, names


def _model(value: Any, method: str) -> "Floats":
    """Return a model as an array of floats."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{method} returned a model of shape {array.shape}; one or two dimensions are needed")
    return array


def _batches(users: Users, numbers: int) -> "Iterator[Tuple[int, int, Users]]":
    """Split users into batches whose arrays, of so many numbers a user, stay in the cache of a processor."""
    size = max(_BATCH // (8 * max(numbers, 1)), _FEWEST)
    if len(users) <= size:
        yield 0, len(users), users
        return
    for a in range(0, len(users), size):
        b = min(a + size, len(users))
        part = slice(users.start[a], users.start[b])
        yield a, b, Users(users.start[a : b + 1] - users.start[a], users.item[part], users.rating[part])


def _predicted(a: Algorithm, users: Users, model: Any, arrays: Mapping[str, Any]) -> "Floats":
    """Return predictions as they are sent: of all items, or only of those that are wanted."""
    start, items = arrays.get("want_start"), a.problem.items
    out = []
    for first, last, some in _batches(users, items):
        all = np.asarray(a.predict(some, model), dtype=np.float64)
        if all.shape != (last - first, items):
            return np.asarray(a.predict(users, model), dtype=np.float64)  # for fedsim to refuse
        if start is not None:
            row = np.repeat(np.arange(last - first), np.diff(start[first : last + 1]))
            all = all[row, arrays["want_item"][start[first] : start[last]]]
        out.append(all)
    return out[0] if len(out) == 1 else np.concatenate(out)


def _contributed(a: Algorithm, users: Users, model: Any) -> Dict[str, Any]:
    """Return vectors as they are sent: whole, or only the coordinates other than zero."""
    length = _phase(a).length
    whole, parts, full = [], [], False
    for first, last, some in _batches(users, length):
        array = np.asarray(a.contribute(some, model))
        if array.shape != (last - first, length):
            return {"vectors": np.asarray(a.contribute(users, model), dtype=np.float64)}  # for fedsim to refuse
        if array.dtype not in (np.float64, np.float32):
            array = array.astype(np.float64)
        part = _sparse(array)
        full = full or part is None
        parts.append(part)
        whole.append(array if part is None else None)
    if full:
        return {"vectors": np.concatenate([_dense(p, length) if w is None else w for w, p in zip(whole, parts)])}
    counts, index, value = (np.concatenate(x) for x in zip(*(p for p in parts if p is not None)))
    return {"start": np.append(0, np.cumsum(counts)), "index": index, "value": value}


def _sparse(array: Any) -> "Optional[Tuple[Any, Any, Any]]":
    """Return how many coordinates of each row are not zero, their numbers and values; None if they are many."""
    n, length = array.shape
    flat = np.flatnonzero(array != 0)  # of a mask, which is many times faster than of floats
    if len(flat) > _SPARSE * array.size:
        return None
    counts = np.diff(np.searchsorted(flat, length * np.arange(n + 1)))
    return counts, (flat - np.repeat(length * np.arange(n), counts)).astype(np.int32), array.ravel()[flat]


def _dense(part: Any, length: int) -> Any:
    """Return the array that _sparse took apart."""
    counts, index, value = part
    out = np.zeros((len(counts), length), value.dtype)
    out[np.repeat(np.arange(len(counts)), counts), index] = value
    return out


def _said(e: Exception) -> str:
    """Return an exception with the line of the algorithm where it arose."""
    package = os.path.dirname(__file__)
    frames = [f for f in traceback.extract_tb(e.__traceback__) if os.path.dirname(f.filename) != package and not f.filename.startswith("<")]
    at = f" ({frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(e).__name__}: {e}{at}"


def _read(f: BinaryIO) -> "Optional[Tuple[Dict[str, Any], Dict[str, Any]]]":
    """Read a message; None at the end."""
    line = f.readline()
    if not line:
        return None
    head: Dict[str, Any] = json.loads(line)
    arrays = {}
    for frame in head["frames"]:
        array = _read_array(f)
        if array is None:
            return None
        arrays[frame["name"]] = array
    return head, arrays


def _read_array(f: BinaryIO) -> Any:
    """Read an NPY file of fedsim into an array without a copy; None if its end is missing."""
    begin = f.read(10)
    header = f.read(int.from_bytes(begin[8:], "little"))
    if begin[:8] != b"\x93NUMPY\x01\x00" or not header.endswith(b"\n"):
        return None
    array = np.empty(*_shape_and_type(header))
    if array.size and f.readinto(array.reshape(-1).view(np.uint8)) < array.nbytes:  # type: ignore[attr-defined]
        return None
    return array


@functools.lru_cache(maxsize=1024)
def _shape_and_type(header: bytes) -> "Tuple[Tuple[int, ...], np.dtype[Any]]":
    """Read the header of an NPY file, which each round repeats."""
    said = ast.literal_eval(header.decode("latin1"))  # as np.load does in the end, after a slow look for Python 2
    return said["shape"], np.dtype(said["descr"])


def _write(f: BinaryIO, head: Dict[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a message."""
    headers: List[bytes] = []
    frames, bodies = [], []
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        buffer = io.BytesIO()
        _npy.write_array_header_1_0(buffer, _npy.header_data_from_array_1_0(array))
        headers.append(buffer.getvalue())
        bodies.append(array)
        frames.append({"name": name, "bytes": len(headers[-1]) + array.nbytes})
    f.write(json.dumps({**head, "frames": frames}).encode() + b"\n")
    for header, array in zip(headers, bodies):
        f.write(header)
        if array.size:
            f.write(array.reshape(-1).view(np.uint8).data)
    f.flush()


def _widen(pipe: int) -> None:
    """Let a pipe hold 1 MiB, where the system can: both sides then wait less often."""
    try:
        import fcntl

        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), 1 << 20)
    except (ImportError, OSError):
        pass


def _keep_memory() -> None:
    """Have the C library of Linux keep freed memory: it raises its limits to the size of the largest array that was freed.

    Otherwise each array of a batch is new memory of the system, and clearing it takes as long as the arithmetic.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)  # just below the size from which on the library keeps none


def main(args: Optional[List[str]] = None) -> None:
    """Serve a class of a file: ``python -m fedsim.serve FILE CLASS [PARAMETERS]``.

    Parameters
    ----------
    args : list of str, optional
        The file, the class in it, and its parameters as a JSON object.
    """
    args = sys.argv[1:] if args is None else args
    if len(args) not in (2, 3):
        sys.exit("usage: python -m fedsim.serve FILE CLASS [PARAMETERS]")
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # what the algorithm reads, or a process that it starts, must not be a request
    os.dup2(2, 1)  # what the algorithm prints must not be taken for a reply
    for pipe in (requests.fileno(), replies.fileno()):
        _widen(pipe)
    _keep_memory()
    if hasattr(os, "setpgid"):
        if os.getpgrp() != os.getpid() and os.getsid(0) != os.getpid():
            os.setpgid(0, 0)
        if os.getpgrp() == os.getpid():
            atexit.register(_end_others)
    _end_with(requests.fileno())
    serving.append(os.path.basename(args[0]))
    sys.path.insert(0, os.path.dirname(os.path.abspath(args[0])))
    try:
        found: Any = runpy.run_path(args[0], run_name="fedsim_own")
        for name in args[1].split("."):
            found = found[name] if isinstance(found, dict) else getattr(found, name)
        algorithm = found(**json.loads(args[2] if len(args) == 3 else "{}"))
    except Exception as e:
        if _read(requests) is None:
            return
        _write(replies, {"type": "error", "error": _said(e)}, {})
        sys.exit(1)
    serve(algorithm, requests, replies)
