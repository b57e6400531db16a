"""The commands as functions."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._command import PathLike, call, call_json, events, folder_of, join_settings, levels_of, setting_flags
from ._errors import AuditError, FedsimError, UsageError
from ._frames import columns_in, columns_of, data_file, kinds_of, records
from ._html import description
from ._ids import Kinds
from ._progress import Callback, Progress, teller, telling
from ._result import Result
from .own import Algorithm, command_of

if TYPE_CHECKING:
    import pandas as pd


class _Call:
    """A call of the command on ratings: the one place where Python's ways to give a setting meet."""

    def __init__(
        self, ratings: Any, algorithm: Any, out: Optional[PathLike], items: Any, columns: Optional[Mapping[str, str]],
        settings: Optional[Mapping[str, Any]], arguments: Mapping[str, Any], more: Mapping[str, Any],
    ) -> None:
        settings = levels_of(settings)
        if isinstance(settings.get("algorithm"), Algorithm) and algorithm is None:
            algorithm = settings.pop("algorithm")
        if isinstance(settings.get("columns"), Mapping) and columns is None:
            columns = settings.pop("columns")
        self.own = algorithm if isinstance(algorithm, Algorithm) else None
        said = {"algorithm": "external", "external.name": repr(algorithm)} if self.own else {"algorithm": algorithm}
        if ratings is not None and "data" in settings:
            raise UsageError(f"data has two values: the ratings of this call and settings['data']={settings['data']!r}; give one", 2, ["data"])
        self.keys = join_settings(settings, said, {**arguments, "out": None if out is None else os.fspath(out)}, more)
        self.env: Dict[str, str] = {}
        if self.own is not None:
            self.keys.setdefault("rounds", str(self.own.rounds))
            self.env = command_of(self.own)
        self._ratings, self._columns, self._items = _kept(ratings), columns, items
        self.kinds = Kinds()
        self.files: Dict[str, str] = {}  # Python's names of files

    def out(self, default: str) -> str:
        """Take the folder of runs, which stays right if the program changes its folder."""
        return os.path.abspath(self.keys.pop("out", default))

    def flags(self, folder: PathLike) -> List[str]:
        """Return the flags of data and settings. Ratings that are no file are kept in a folder."""
        flags: List[str] = []
        if self._ratings is not None:
            path, features = data_file(self._ratings, folder, self._columns, self._items)
            flags += ["--data", path]
            if isinstance(self._ratings, (str, os.PathLike)):
                if self._columns:
                    flags += ["--columns", ",".join(f"{role}={name}" for role, name in self._columns.items())]
            else:
                self.kinds = kinds_of(self._ratings, self._columns)
                self.files[path] = "the ratings"
            if features and "features" not in self.keys and "features" in (explain(self.keys.get("algorithm", "ssp-c")).get("keys") or ()):
                self.keys["features"] = ",".join(features)
        elif self._items is not None:
            raise UsageError("items describes the items of ratings, and there are no ratings")
        return flags + setting_flags(self.keys)

    def result(self, folder: PathLike) -> Result:
        """Return a finished run."""
        self.kinds.keep(Path(folder))
        return Result(folder, self.env)


def _kept(ratings: Any) -> Any:
    """Return ratings that can be read several times: an iterator is read once."""
    return columns_in(ratings) if isinstance(ratings, (Iterator, Mapping)) else ratings


def run(
    ratings: Any = None,
    algorithm: Union[None, str, Algorithm] = None,
    epsilon: Optional[float] = None,
    *,
    items: Any = None,
    out: Optional[PathLike] = None,
    name: Optional[str] = None,
    columns: Optional[Mapping[str, str]] = None,
    save_predictions: bool = False,
    resume: bool = False,
    progress: Progress = None,
    callbacks: Sequence[Callback] = (),
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Result:
    """Train and measure: one experiment.

    Parameters
    ----------
    ratings : DataFrame, mapping, list, array, sparse matrix, path or str, optional
        Ratings with the columns user, item and perhaps rating and timestamp, by the names of fedsim, LensKit, MovieLens
        or RecBole: a frame of pandas or polars, a mapping of columns, a list of dicts. Tuples and arrays have the columns
        in this order, and a sparse matrix has a row for each user. Or what ``--data`` takes: a file, a folder or the name
        of a data set. Without a column of ratings every row is a click. Default: generated ratings of MovieLens 1M's shape.
    algorithm : str or Algorithm, optional
        How to train. Default: ``ssp-c``. :func:`fedsim.explain` says what each does. An instance of a subclass of
        :class:`fedsim.own.Algorithm` is an algorithm of your own.
    epsilon : float, optional
        The privacy budget; infinity for no noise. Default: 10.
    items : DataFrame, mapping or list, optional
        What is public of the items: the column item, and perhaps title, genres (a list, or a text with | between), year,
        vectors of numbers, and other columns. The model uses all but titles as features, unless ``features`` says which.
    out : path, optional
        The folder of runs. Ratings that are no file are kept in its folder ``ratings``. Default: runs.
    name : str, optional
        The folder of this run in there. Default: made of algorithm, data, epsilon and seed.
    columns : mapping, optional
        Names of columns, such as ``{"user": "visitor", "item": "sku"}``.
    save_predictions : bool
        Whether to keep the predictions of the test part, for :attr:`Result.predictions`.
    resume : bool
        Whether to go on after the last round of the same run that was stopped.
    progress : bool or callable, optional
        Whether to show a bar on stderr, or what to call with each event. Default: on a terminal and in a notebook.
    callbacks : sequence of callables
        Each is called with every event, such as of :mod:`fedsim.tracking` for MLflow, TensorBoard and Weights & Biases.
    settings : mapping, optional
        Any keys of an experiment file, such as ``{"split.seed": 3}`` or ``{"split": {"seed": 3}}``.
    **more
        Keys as keywords: ``clip_norm=2`` is the key ``clip-norm``, ``eval__top_k=[5, 10]`` is ``eval.top-k``. Two values
        for one key are an error.

    Returns
    -------
    Result
        The finished run.

    Raises
    ------
    UsageError
        If the request cannot be met. ``key`` names the setting.
    FedsimError
        If the command failed.

    Examples
    --------
    >>> result = fedsim.run(ratings, algorithm="ssp-c", epsilon=5)  # doctest: +SKIP
    >>> result.metrics["test_rmse"]  # doctest: +SKIP
    """
    c = _Call(ratings, algorithm, out, items, columns, settings, {"epsilon": epsilon, "name": name}, more)
    folder = c.out("runs")
    args = ["run", "--out", folder, *c.flags(folder)]
    if save_predictions:
        args.append("--save-predictions")
    if resume:
        args.append("--resume")
    with telling(progress, callbacks, c.keys) as tell:
        last = events(args, tell, env=c.env, files=c.files)
    return c.result(last["results"])


class Sweep:
    """The runs of a sweep.

    Attributes
    ----------
    folder : Path
        The folder of the sweep.
    results : list of Result
        The finished runs.
    """

    def __init__(self, folder: PathLike, results: Sequence[Result]) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.results: List[Result] = list(results)

    @property
    def table(self) -> "pd.DataFrame":
        """DataFrame : A row for each run: settings and metrics."""
        return table_of(*[r.folder for r in self.results])

    def means(self, over: str = "seed") -> "pd.DataFrame":
        """Average over runs that differ in some keys alone.

        Parameters
        ----------
        over : str
            These keys, with commas between.

        Returns
        -------
        DataFrame
        """
        return records(call_json(["results", *[str(r.folder) for r in self.results], "--over", over]))

    def plot(self, file: PathLike, metric: Optional[str] = None) -> Path:
        """Draw the quality against ε.

        Parameters
        ----------
        file : path
            An SVG, PDF or PNG file.
        metric : str, optional
            What to draw. Default: the RMSE, or Recall@20 of rankings.

        Returns
        -------
        Path
            The file.
        """
        call(["plot", *[str(r.folder) for r in self.results], "--out", str(file), *(["--metric", metric] if metric else [])])
        return Path(file)

    def __len__(self) -> int:
        return len(self.results)

    def _repr_html_(self) -> str:
        rows = {r.folder.name: f"{r.name}, ε = {r.epsilon:.4g}" + (f", test RMSE {r.metrics['test_rmse']:.4f}" if "test_rmse" in r.metrics else "") for r in self.results}
        return description(f"Sweep of {len(self)} runs", rows)

    def __repr__(self) -> str:
        return f"<fedsim.Sweep of {len(self)} runs, {self.folder}>"


def sweep(
    ratings: Any = None,
    algorithm: Any = None,
    epsilon: Any = None,
    *,
    seeds: Any = None,
    items: Any = None,
    out: Optional[PathLike] = None,
    columns: Optional[Mapping[str, str]] = None,
    jobs: Optional[int] = None,
    progress: Progress = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Sweep:
    """Run all combinations of lists of values. Runs that are finished in the folder are not run again.

    Parameters
    ----------
    ratings, items, columns, progress, settings, **more
        As of :func:`fedsim.run`, and a setting may be a list of values.
    algorithm : str, Algorithm or list of them, optional
        Algorithms. The runs of each algorithm of one's own are in a folder of their own within `out`.
    epsilon : float or list of float, optional
        Privacy budgets.
    seeds : str or list of int, optional
        Seeds, such as ``"1..5"``. Their runs share the split of the first.
    out : path, optional
        The folder of the sweep. Default: runs/sweep.
    jobs : int, optional
        Runs at a time. Default: one for each core.

    Returns
    -------
    Sweep

    Raises
    ------
    FedsimError
        If a run failed. The others are finished, and the same call tries the failed ones again.
    """
    results: List[Result] = []
    ratings = _kept(ratings)
    groups, folder = _groups(algorithm, settings), ""
    for k, one in enumerate(groups):
        said = levels_of(settings)
        if algorithm is None:
            said.pop("algorithm", None)  # which is one
        c = _Call(ratings, one, out, items, columns, said, {"epsilon": epsilon, "seeds": seeds}, more)
        if "seeds" in c.keys and "seed" in c.keys:
            raise UsageError(f"seeds={seeds!r} and seed={c.keys['seed']} are two values for one setting; give one", 2, ["seed"])
        folder = c.out("runs/sweep")
        given = c.keys.pop("seeds", None)
        flags = ["--seeds", given] if given is not None else []
        flags += ["--jobs", str(jobs)] if jobs is not None else []
        part = os.path.join(folder, f"{_plain_name(c.own)}-{k}") if c.own is not None else folder
        last = events(["sweep", "--out", part, *c.flags(folder if c.own is None else part), *flags], teller(progress), env=c.env, files=c.files)
        results += [c.result(r["results"]) for r in last["runs"]]
    return Sweep(folder, results)


def _plain_name(algorithm: Algorithm) -> str:
    """Return an algorithm's class and parameters as the name of a folder."""
    return "-".join([type(algorithm).__name__, *(f"{k}{v}" for k, v in algorithm.params.items() if isinstance(v, (int, float, str)) and len(str(v)) < 12)]).replace(os.sep, "-")


def _groups(algorithm: Any, settings: Optional[Mapping[str, Any]]) -> List[Any]:
    """Return the algorithms that one command can sweep: the names together, and each algorithm of the caller's own."""
    if algorithm is None:
        algorithm = levels_of(settings).get("algorithm")
    listed = list(algorithm) if isinstance(algorithm, (list, tuple)) else [algorithm]
    own = [a for a in listed if isinstance(a, Algorithm)]
    named = [a for a in listed if not isinstance(a, Algorithm)]
    return ([named if len(named) > 1 else named[0]] if named else []) + own


def table_of(*runs: Any) -> "pd.DataFrame":
    """Return the table of finished runs.

    Parameters
    ----------
    *runs : Result, Model or path
        Runs, or folders that hold runs.

    Returns
    -------
    DataFrame
        A row for each run: settings and metrics.
    """
    return records(call_json(["results", *[str(folder_of(r)) for r in runs]]))


def compare(a: Any, b: Any, metric: Optional[str] = None, *, resamples: Optional[int] = None, seed: Optional[int] = None) -> Dict[str, Any]:
    """Test whether one run, or a method outside fedsim, is better than another on the same test.

    Parameters
    ----------
    a : Result, Model or path
        A finished run.
    b : Result, Model, path or DataFrame
        Another one on the same data and split; or the predictions of a method outside fedsim, with the columns user, item
        and any of predicted, score and rank. Errors are of predicted, else of score. Lists are in the order of rank, else of
        score, else of predicted.
    metric : str, optional
        ``rmse``, or one of lists such as ``ndcg@10``.
    resamples : int, optional
        How often users are drawn anew.
    seed : int, optional
        Seed of the draws.

    Returns
    -------
    dict
        ``difference``, its 95% ``interval``, ``p`` of the bootstrap, ``p_randomisation`` and more.
    """
    more = ["--metric", metric] if metric else []
    more += ["--resamples", str(resamples)] if resamples is not None else []
    more += ["--seed", str(seed)] if seed is not None else []
    if not isinstance(b, (str, os.PathLike)) and not hasattr(b, "folder"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "outside.csv"
            _write_predictions(b, path)
            return dict(call_json(["compare", str(folder_of(a)), str(path), *more], files={str(path): "the table"}))
    other = b if isinstance(b, (str, os.PathLike)) else folder_of(b)
    return dict(call_json(["compare", str(folder_of(a)), str(other), *more]))


def _write_predictions(frame: Any, path: Path) -> None:
    """Write the predictions of a method outside fedsim."""
    there = columns_in(frame)
    found = columns_of(there, only=("user", "item"))
    numbers = [name for name in ("predicted", "prediction", "score", "rank") if name in there]
    if not numbers:
        raise UsageError(f"there is no column predicted, score or rank, only {', '.join(there)}")
    found.update({name: list(there[name]) for name in numbers})
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(found)
        w.writerows(zip(*found.values()))


class Plan(Dict[str, Any]):
    """What an experiment would do, as ``fedsim plan --format json`` prints it."""

    def _repr_html_(self) -> str:
        privacy, cohort = self.get("privacy") or {}, self.get("cohort") or {}
        rows = {"algorithm": self.get("algorithm"), **{f"cohort, {k}": x for k, x in cohort.items() if isinstance(x, (int, float, str))},
                **{f"privacy, {k}": x for k, x in privacy.items() if isinstance(x, (int, float, str))},
                "releases": ", ".join(str(r.get("name")) for r in self.get("releases") or ())}
        return description("Plan", rows)


def plan(
    ratings: Any = None,
    algorithm: Union[None, str, Algorithm] = None,
    epsilon: Optional[float] = None,
    *,
    items: Any = None,
    columns: Optional[Mapping[str, str]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Plan:
    """Say what an experiment would do, rest on and cost before anything runs.

    Parameters
    ----------
    ratings, algorithm, epsilon, items, columns, settings, **more
        As of :func:`fedsim.run`.

    Returns
    -------
    Plan
        A dict:
        The cohort, each release with its bounds and noise, bytes, memory and the statement of privacy.
    """
    with tempfile.TemporaryDirectory() as folder:
        c = _Call(ratings, algorithm, None, items, columns, settings, {"epsilon": epsilon}, more)
        return Plan(call_json(["plan", *c.flags(folder)], env=c.env, files=c.files))


def audit(
    algorithm: Union[None, str, Algorithm] = None,
    epsilon: Optional[float] = None,
    *,
    runs: Optional[int] = None,
    neighbours: bool = False,
    canaries: Optional[int] = None,
    claim: Optional[str] = None,
    ratings: Any = None,
    columns: Optional[Mapping[str, str]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Dict[str, Any]:
    """Try to catch the stated ε out.

    Parameters
    ----------
    algorithm, epsilon, columns, settings, **more
        As of :func:`fedsim.run`.
    runs : int, optional
        Runs with the unit there, and as many with it empty.
    neighbours : bool
        Compare instead two runs that differ in one unit, at the same noise.
    canaries : int, optional
        Make instead one run on `ratings` in which so many users are left out by coins, and guess which.
    claim : {"stated", "published"}, optional
        Which ε is audited.
    ratings : DataFrame, mapping of arrays, path or str, optional
        For `canaries`.

    Returns
    -------
    dict
        ``claimed_epsilon``, the lower ``bound`` that the attack reached, and more.

    Raises
    ------
    AuditError
        If the audit refutes what is stated; its ``report`` is what is returned otherwise.
    """
    with tempfile.TemporaryDirectory() as folder:
        c = _Call(ratings, algorithm, None, None, columns, settings, {"epsilon": epsilon}, more)
        args = ["audit", *c.flags(folder)]
        for flag, value in (("--runs", runs), ("--canaries", canaries), ("--claim", claim)):
            if value is not None:
                args += [flag, str(value)]
        if neighbours:
            args.append("--neighbours")
        try:
            return dict(call_json(args, env=c.env, files=c.files))
        except FedsimError as e:
            if e.printed.startswith("{"):
                raise AuditError(str(e), json.loads(e.printed)) from None
            raise


def keys(text: str = "", algorithm: Optional[str] = None) -> "pd.DataFrame":
    """List the keys of experiment files.

    Parameters
    ----------
    text : str
        List only keys whose name or meaning contains this.
    algorithm : str, optional
        List only the keys of this algorithm.

    Returns
    -------
    DataFrame
        With the columns key, values, default and help.
    """
    return records(call_json(["keys", *([text] if text else []), *(["--algorithm", algorithm] if algorithm else [])]))


def explain(name: str) -> Dict[str, Any]:
    """Explain an algorithm or a key.

    Parameters
    ----------
    name : str
        Such as ``ssp-c``, ``epsilon`` or ``split.test``.

    Returns
    -------
    dict
        ``name``, ``help`` and what else there is to say.
    """
    return dict(call_json(["explain", name]))


def version() -> str:
    """Return the version of the command.

    Returns
    -------
    str
    """
    return call(["version"]).strip()
