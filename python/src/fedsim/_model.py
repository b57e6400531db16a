"""The model of a finished run."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._command import PathLike, call, folder_of, start, warn
from ._errors import FedsimError, UsageError, error_of
from ._frames import columns_of, pandas, profile_of, read_table, table
from ._html import description
from ._ids import Kinds, id_text, id_texts

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

_AT_ONCE = 4_000  # pairs of one request


class Model:
    """The model of a finished run, which ``fedsim serve`` answers for.

    The server starts with the first question, reads the data once, answers this process alone, and ends with
    :meth:`close`, with the ``with`` block, with the object or with the process, however that ends. A model may be asked by
    several threads. A copy, such as of pickle, has a server of its own.

    Parameters
    ----------
    folder : path
        The folder of a finished run.
    data : path or str, optional
        Where the run's ratings are now. Default: where the run read them.
    env : mapping, optional
        Variables for the command, such as of :func:`fedsim.own.command_of` for an algorithm of one's own.

    Examples
    --------
    >>> with fedsim.Model.load("runs/mine") as model:  # doctest: +SKIP
    ...     model.recommend("ann", 3)
    """

    _home: Optional[str] = None  # a temporary folder, which lasts as long as something refers to it

    def __init__(self, folder: PathLike, data: Optional[PathLike] = None, env: Optional[Mapping[str, str]] = None) -> None:
        self.folder: Path = folder_of(folder)
        self.env = env
        self.data = os.path.abspath(data) if data is not None and os.path.exists(data) else data
        self._begin()

    def _begin(self) -> None:
        self._kinds = Kinds.of(self.folder)
        self._lock = threading.Lock()
        self._server: Optional[_Server] = None
        self._unknown = False  # whether a list of popular items was remarked on

    def __getstate__(self) -> Dict[str, Any]:
        return {"folder": self.folder, "env": self.env, "data": self.data}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @classmethod
    def load(cls, folder: PathLike, data: Optional[PathLike] = None, env: Optional[Mapping[str, str]] = None) -> "Model":
        """Return the model of a folder.

        Parameters
        ----------
        folder : path
            The folder of a finished run.
        data : path or str, optional
            Where the run's ratings are now.
        env : mapping, optional
            Variables for the command.

        Returns
        -------
        Model
        """
        return cls(folder, data, env)

    def recommend(self, user: Any, n: int = 10) -> "pd.DataFrame":
        """List items that a user might like and has not rated.

        Parameters
        ----------
        user : str or int
            The user's id in the data.
        n : int
            How many items.

        Returns
        -------
        DataFrame
            With the columns item, score, predicted and, if the data have them, title, genres and year; the best first. The score
            orders the list, and predicted has the stars, which need not descend. A user whom the run does not know gets the
            popular items, and the first such list gives a warning.
        """
        answer = self._ask("/recommend", user=id_text(user, "user"), top=n)
        if answer.get("by") == "popularity" and not self._unknown:
            self._unknown = True
            warn(f"user {user!r} is not in the run {self.folder.name}: the list has the items that are liked most. recommend_to fits a user by ratings")
        return self._items(answer)

    def recommend_to(self, ratings: Any, n: int = 10, user: str = "") -> "pd.DataFrame":
        """List items for a user whom the run need not know, by the user's ratings.

        The user is fitted to the released items, as the user's client would do. Nothing of the ratings is kept.

        Parameters
        ----------
        ratings : mapping of item to rating, series by item, frame with the columns item and rating, or iterable of items
            What the user rated; items alone are clicks.
        n : int
            How many items.
        user : str
            A name for messages.

        Returns
        -------
        DataFrame
            As of :meth:`recommend`.
        """
        found = profile_of(ratings)
        rows = zip(*found.values())
        given = [dict(zip(found, row)) for row in rows]
        return self._items(self._ask("/recommend", {**({"user": str(user)} if user else {}), "top": n, "ratings": given}))

    def recommend_all(self, n: int = 10) -> "pd.DataFrame":
        """List items for every user of the data.

        Parameters
        ----------
        n : int
            How many items for each user.

        Returns
        -------
        DataFrame
            With the columns user, item, score and rank, as LensKit has recommendations, and predicted, in stars. The score
            descends with the rank.
        """
        args = ["recommend", "--run", str(self.folder), "--all", "--top", str(n), "--to", "csv", *self._data()]
        lists = read_table(io.StringIO(call(args, env=self.env)), numbers=("score", "predicted", "rank"), kinds=self._kinds)
        return table({"user": lists["user"], "item": lists["item"], "score": lists["score"], "rank": np.asarray(lists["rank"], dtype=np.int64), "predicted": lists["predicted"]})

    def similar(self, item: Any, n: int = 10, by: str = "cosine") -> "pd.DataFrame":
        """List items like another.

        Parameters
        ----------
        item : str or int
            Its id, its title, or a part of its title that no other item has.
        n : int
            How many items.
        by : {"cosine", "inner"}
            By the cosine of the embeddings or by their inner product.

        Returns
        -------
        DataFrame
        """
        answer = self._ask("/similar", item=id_text(item, "item"), top=n, by=by)
        if answer.get("note"):
            warn(answer["note"])
        return self._items(answer)

    def predict(self, users: Any, items: Optional[Any] = None) -> "npt.NDArray[np.float64]":
        """Predict ratings of pairs: the predictions whose error a run states as ``test_rmse``.

        Parameters
        ----------
        users : sequence of ids, or DataFrame
            The users; or a frame with the columns user and item. None is a user who has rated nothing.
        items : sequence of ids, optional
            The items, one for each user.

        Returns
        -------
        ndarray of float
            NaN for a user or an item that the run does not have.
        """
        if items is None:
            found = columns_of(users, only=("user", "item"))
            users, items = found["user"], found["item"]
        nobody = [k for k, u in enumerate(users) if u is None] if isinstance(users, Iterable) else []
        left: List[Optional[str]] = list(id_texts(["?" if u is None else u for u in users] if nobody else users, "user"))
        for k in nobody:
            left[k] = None
        right = id_texts(items, "item")
        if len(left) != len(right):
            raise ValueError(f"{len(left)} users and {len(right)} items; a pair needs one of each")
        out = np.full(len(left), np.nan)
        order = sorted(range(len(left)), key=lambda k: left[k] or "")  # a user's pairs together: one prediction of the model serves them
        for k in range(0, len(order), _AT_ONCE):
            part = order[k : k + _AT_ONCE]
            got = self._ask("/predict", {"user": [left[i] for i in part], "item": [right[i] for i in part]})["predicted"]
            out[part] = [np.nan if x is None else x for x in got]
        return out

    def item_embeddings(self) -> "pd.DataFrame":
        """Return the items' embeddings.

        Returns
        -------
        DataFrame
            A row for each item, indexed by id; without pandas a dict of ``id`` and ``embedding``.
        """
        return self.matrix("item_embeddings")

    def user_embeddings(self) -> "pd.DataFrame":
        """Return the users' embeddings, which ε does not cover: in a deployment they stay with the clients.

        Returns
        -------
        DataFrame
        """
        return self.matrix("user_embeddings")

    def matrix(self, name: str) -> "pd.DataFrame":
        """Return a matrix of the run's folder.

        Parameters
        ----------
        name : str
            Such as ``item_bias``.

        Returns
        -------
        DataFrame
            Indexed by the ids of its rows.
        """
        path = self.folder / f"{name}.npy"
        if not path.exists():
            there = sorted(p.stem for p in self.folder.glob("*.npy"))
            raise FedsimError(f"{self.folder} has no {name}; it has {', '.join(there) or 'no matrix'}")
        values = np.load(path, allow_pickle=False)
        ids = json.loads((self.folder / f"{name}.ids.json").read_text(encoding="utf-8"))
        pd = pandas()
        if pd is None:
            return {"id": np.asarray(self._rows(name, ids)), "embedding": values}
        return pd.DataFrame(values, index=pd.Index(self._rows(name, ids), name="id"))

    def _rows(self, name: str, ids: List[str]) -> Any:
        role = name.split("_")[0]
        return self._kinds.typed(role, ids) if role in self._kinds.kinds else ids

    def export(self, to: str, out: PathLike, users: bool = False) -> Path:
        """Write the embeddings for other programs.

        Parameters
        ----------
        to : {"parquet", "csv", "safetensors", "faiss", "word2vec"}
            The format.
        out : path
            The folder to write.
        users : bool
            Also the users' part, which ε does not cover.

        Returns
        -------
        Path
            The folder.
        """
        call(["export", "--run", str(self.folder), "--to", to, "--out", str(out), *(["--users"] if users else []), *self._data()], env=self.env)
        return Path(out)

    def close(self) -> None:
        """End the server, if one runs."""
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"fedsim.Model({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        return description("Model", {"folder": self.folder, "server": "none yet" if self._server is None else self._server.url})

    def _items(self, answer: Dict[str, Any]) -> "pd.DataFrame":
        rows = [{"item" if name == "id" else name: x for name, x in row.items()} for row in answer["items"] or ()]
        order: Tuple[str, ...] = ("item", "score", "predicted", "cosine", "inner", "title", "genres", "year")
        names = [name for name in order if any(name in row for row in rows)] or order[:3]
        columns: Dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
        columns["item"] = self._kinds.typed("item", columns["item"])
        return table(columns)

    def _data(self) -> List[str]:
        return [] if self.data is None else ["--data", str(self.data)]

    def _ask(self, path: str, body: Optional[Dict[str, Any]] = None, **query: Any) -> Dict[str, Any]:
        with self._lock:
            server = self._server
            if server is None or not server.lives():
                self._server = server = _Server(["serve", "--run", str(self.folder), "--listen", "127.0.0.1:0", *self._data()], self.env)
            _models.add(self)
        return server.ask(path, body, **query)


_models: "weakref.WeakSet[Model]" = weakref.WeakSet()  # with servers


def _forked() -> None:
    """Give each model of a forked process a server of its own: the other one ends with the parent."""
    for model in list(_models):
        model._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Server:
    """A ``fedsim serve`` that answers this process alone: other accounts of the machine do not have its token."""

    def __init__(self, args: Sequence[str], env: Optional[Mapping[str, str]]) -> None:
        self.token = secrets.token_urlsafe(32)
        self.process, tie = start(args, {**(env or {}), "FEDSIM_TOKEN": self.token}, stdout=subprocess.DEVNULL, start_new_session=True)
        readers: List[threading.Thread] = []
        self._finalizer = weakref.finalize(self, _end, self.process, tie, os.getpid(), readers)
        said: List[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            said.append(line)
            found = re.search(r" at (http://\S+)", line)
            if found:
                self.url = found[1]
                break
        else:
            code = self.process.wait()
            text = "".join(said).strip()
            self.close()
            raise error_of({"error": text[len("fedsim: "):] if text.startswith("fedsim: ") else text, "exit": code})
        readers.append(threading.Thread(target=self.process.stderr.read, daemon=True))
        readers[0].start()

    def lives(self) -> bool:
        return self.process.poll() is None

    def ask(self, path: str, body: Optional[Dict[str, Any]], **query: Any) -> Dict[str, Any]:
        url = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
        try:
            with opener.open(urllib.request.Request(url, data, {"Authorization": f"Bearer {self.token}"}), timeout=300) as answer:
                got: Dict[str, Any] = json.load(answer)
                return got
        except urllib.error.HTTPError as e:
            with e:
                raise UsageError(json.load(e)["error"], 2) from None
        except OSError as e:
            raise FedsimError(f"the server of the model does not answer: {e}") from e

    def close(self) -> None:
        self._finalizer()


def _end(process: "subprocess.Popen[str]", tie: int, owner: int, readers: List[threading.Thread]) -> None:
    """End a server. A forked process leaves its parent's alone."""
    os.close(tie)
    if os.getpid() != owner:
        return
    try:
        process.terminate()
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for reader in readers:
        reader.join(timeout=5)
    if process.stderr is not None:
        process.stderr.close()
