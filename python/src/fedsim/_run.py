"""The commands as functions."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._command import PathLike, call, call_json, events, folder_of, setting_flags
from ._errors import AuditError, FedsimError
from ._frames import columns_of, data_file, records
from ._progress import Progress, teller
from ._result import Result
from .own import Algorithm, command_of

if TYPE_CHECKING:
    import pandas as pd


def _settings(settings: Optional[Mapping[str, Any]], more: Mapping[str, Any]) -> List[str]:
    return setting_flags({**(settings or {}), **more})


def _own(algorithm: Any, more: Mapping[str, Any]) -> "Tuple[Dict[str, Any], Dict[str, str]]":
    """Return the settings of an algorithm, and the environment of one of the caller's own."""
    if not isinstance(algorithm, Algorithm):
        return {"algorithm": algorithm}, {}
    said: Dict[str, Any] = {"algorithm": "external", "external.name": repr(algorithm)}
    if "rounds" not in more:
        said["rounds"] = algorithm.rounds
    return said, command_of(algorithm)


def _data(ratings: Any, out: PathLike, columns: Optional[Mapping[str, str]]) -> List[str]:
    if ratings is None:
        return []
    flags = ["--data", data_file(ratings, out, columns)]
    if columns and isinstance(ratings, (str, os.PathLike)):
        flags += ["--columns", ",".join(f"{role}={name}" for role, name in columns.items())]
    return flags


def run(
    ratings: Any = None,
    algorithm: Union[None, str, Algorithm] = None,
    epsilon: Optional[float] = None,
    *,
    out: PathLike = "runs",
    name: Optional[str] = None,
    columns: Optional[Mapping[str, str]] = None,
    save_predictions: bool = False,
    resume: bool = False,
    progress: Progress = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Result:
    """Train and measure: one experiment.

    Parameters
    ----------
    ratings : DataFrame, mapping of arrays, path or str, optional
        Ratings with the columns user, item and perhaps rating and timestamp, by the names of fedsim, LensKit, MovieLens
        or RecBole; or what ``--data`` takes: a file, a folder or the name of a data set. Without a column of ratings
        every row is a click. Default: generated ratings of MovieLens 1M's shape.
    algorithm : str or Algorithm, optional
        How to train. Default: ``ssp-c``. :func:`fedsim.explain` says what each does. An instance of a subclass of
        :class:`fedsim.own.Algorithm` is an algorithm of your own.
    epsilon : float, optional
        The privacy budget; infinity for no noise. Default: 10.
    out : path
        The folder of runs. Ratings that are no file are kept in its folder ``ratings``.
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
    settings : mapping, optional
        Any keys of an experiment file, such as ``{"split.seed": 3}``.
    **more
        Keys as keywords: ``clip_norm=2`` is the key ``clip-norm``, ``eval__top_k=[5, 10]`` is ``eval.top-k``.

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
    args = ["run", *_data(ratings, out, columns), "--out", str(out)]
    said, env = _own(algorithm, {**(settings or {}), **more})
    args += _settings(settings, {**said, **more, "epsilon": epsilon})
    if name is not None:
        args += ["--name", name]
    if save_predictions:
        args.append("--save-predictions")
    if resume:
        args.append("--resume")
    last = events(args, teller(progress), env=env)
    return Result(last["results"], env)


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
        self.folder = Path(folder)
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

    def __repr__(self) -> str:
        return f"<fedsim.Sweep of {len(self)} runs, {self.folder}>"


def sweep(
    ratings: Any = None,
    algorithm: Any = None,
    epsilon: Any = None,
    *,
    seeds: Any = None,
    out: PathLike = "runs/sweep",
    columns: Optional[Mapping[str, str]] = None,
    jobs: Optional[int] = None,
    progress: Progress = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Sweep:
    """Run all combinations of lists of values. Runs that are finished in the folder are not run again.

    Parameters
    ----------
    ratings, columns, progress, settings, **more
        As of :func:`fedsim.run`, and a setting may be a list of values.
    algorithm : str, Algorithm or list of them, optional
        Algorithms. The runs of each algorithm of one's own are in a folder of their own within `out`.
    epsilon : float or list of float, optional
        Privacy budgets.
    seeds : str or list of int, optional
        Seeds, such as ``"1..5"``. Their runs share the split of the first.
    out : path
        The folder of the sweep.
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
    args = ["sweep", *_data(ratings, out, columns)]
    if seeds is not None:
        args += ["--seeds", seeds if isinstance(seeds, str) else ",".join(str(s) for s in seeds)]
    if jobs is not None:
        args += ["--jobs", str(jobs)]
    results: List[Result] = []
    for k, one in enumerate(_groups(algorithm)):
        said, env = _own(one, more)
        folder = Path(out) / f"{type(one).__name__}-{k}" if env else Path(out)
        flags = ["--out", str(folder), *_settings(settings, {**more, **said, "epsilon": epsilon})]
        results += [Result(r["results"], env) for r in events([*args, *flags], teller(progress), env=env)["runs"]]
    return Sweep(out, results)


def _groups(algorithm: Any) -> List[Any]:
    """Return the algorithms that one command can sweep: the names together, and each algorithm of the caller's own."""
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
        ``difference``, its 95% ``interval``, ``p`` of the bootstrap, ``p_randomisation``, ``p_wilcoxon`` and more.
    """
    more = ["--metric", metric] if metric else []
    more += ["--resamples", str(resamples)] if resamples is not None else []
    more += ["--seed", str(seed)] if seed is not None else []
    if hasattr(b, "columns") or isinstance(b, Mapping):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "outside.csv"
            _write_predictions(b, path)
            return dict(call_json(["compare", str(folder_of(a)), str(path), *more]))
    other = b if isinstance(b, (str, os.PathLike)) else folder_of(b)
    return dict(call_json(["compare", str(folder_of(a)), str(other), *more]))


def _write_predictions(frame: Any, path: Path) -> None:
    """Write the predictions of a method outside fedsim."""
    names = [str(name) for name in (frame.columns if hasattr(frame, "columns") else frame)]
    found: Dict[str, List[Any]] = {role: values for role, values in columns_of({n: frame[n] for n in names}).items() if role in ("user", "item")}
    numbers = [name for name in ("predicted", "prediction", "score", "rank") if name in names]
    if not numbers:
        raise ValueError(f"there is no column predicted, score or rank, only {', '.join(names)}")
    found.update({name: list(frame[name]) for name in numbers})
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(found)
        w.writerows(zip(*found.values()))


def plan(
    ratings: Any = None,
    algorithm: Union[None, str, Algorithm] = None,
    epsilon: Optional[float] = None,
    *,
    columns: Optional[Mapping[str, str]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    **more: Any,
) -> Dict[str, Any]:
    """Say what an experiment would do, rest on and cost before anything runs.

    Parameters
    ----------
    ratings, algorithm, epsilon, columns, settings, **more
        As of :func:`fedsim.run`.

    Returns
    -------
    dict
        The cohort, each release with its bounds and noise, bytes, memory and the statement of privacy.
    """
    with tempfile.TemporaryDirectory() as folder:
        args = ["plan", *_data(ratings, folder, columns)]
        said, env = _own(algorithm, {**(settings or {}), **more})
        return dict(call_json([*args, *_settings(settings, {**said, **more, "epsilon": epsilon})], env=env))


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
        said, env = _own(algorithm, {**(settings or {}), **more})
        args = ["audit", *_data(ratings, folder, columns), *_settings(settings, {**said, **more, "epsilon": epsilon})]
        for flag, value in (("--runs", runs), ("--canaries", canaries), ("--claim", claim)):
            if value is not None:
                args += [flag, str(value)]
        if neighbours:
            args.append("--neighbours")
        try:
            return dict(call_json(args, env=env))
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
