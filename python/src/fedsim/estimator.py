"""An estimator as scikit-learn has them: ``fit``, ``predict``, ``score``."""

from __future__ import annotations

import inspect
import io
import os
import shutil
import tarfile
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ._command import PathLike, join_settings, levels_of
from ._errors import NotFittedError, UsageError
from ._frames import ALIASES, columns_in, columns_of, kinds_of
from ._result import Result
from ._run import run

__all__ = ["Recommender"]

_bases: List[Any] = []
try:  # so that cross_val_score and pipelines take it
    from sklearn.base import BaseEstimator, RegressorMixin

    _bases = [RegressorMixin, BaseEstimator]
except ImportError:
    pass


class _Parameters:
    """The parameters of an estimator, without scikit-learn."""

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool
            Has no effect: no parameter is an estimator.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in list(inspect.signature(type(self).__init__).parameters)[1:]}

    def set_params(self, **params: Any) -> Any:
        """Set parameters.

        Parameters
        ----------
        **params
            By their names.

        Returns
        -------
        self
        """
        there = self.get_params()
        for name, value in params.items():
            if name not in there:
                raise UsageError(f"there is no parameter {name!r}; there are {', '.join(there)}")
            setattr(self, name, value)
        return self

    def score(self, X: Any, y: Any) -> float:
        """Return R² of the predictions.

        Parameters
        ----------
        X : array of shape (n, 2), or DataFrame
            Pairs of user and item.
        y : array of shape (n,)
            Their ratings.

        Returns
        -------
        float
            1 minus the squared error over the squared deviation from the mean.
        """
        truth = np.asarray(y, dtype=float)
        error = np.sum((truth - self.predict(X)) ** 2)  # type: ignore[attr-defined]
        return float(1 - error / np.sum((truth - truth.mean()) ** 2))


_Estimator: Any = type("_Estimator", tuple(_bases) or (_Parameters,), {})


_DAMPING = 5.0  # ratings: how much the mean of the items weighs in the level of a user, as in LensKit


class Recommender(_Estimator):  # type: ignore[misc]
    """A private recommender with ``fit`` and ``predict``.

    A grid search over estimators compares exact errors. If the ratings are private, no ε covers its choice; ``fedsim tune --private``
    pays for a search.

    Parameters
    ----------
    algorithm : str or Algorithm, optional
        How to train. Default: ``ssp-c``.
    epsilon : float, optional
        The privacy budget of all ratings of a user. Default: 10.
    rating_min, rating_max : float, optional
        The scale of the ratings, which must be public. Default: 1 to 5.
    seed : int, optional
        Everything random follows from it. Default: 1.
    test : float
        The share of the ratings that `fit` does not train on, and that ``result_.metrics`` are measured on. By default `fit` trains
        on all ratings; then ``result_.metrics`` are empty, and :meth:`score` measures.
    settings : mapping, optional
        Any other keys, as of :func:`fedsim.run`. A key that another parameter gives differently is an error.
    out : path, optional
        Where the run is kept. Default: a folder that lasts as long as the estimator or its result, and is copied with the estimator.
    items : DataFrame, mapping or list, optional
        What is public of the items, as of :func:`fedsim.run`.

    Attributes
    ----------
    result_ : Result
        The finished run.

    Examples
    --------
    >>> Recommender(epsilon=5).fit(X, y).predict(X[:3])  # doctest: +SKIP
    """

    def __init__(
        self, algorithm: Any = None, epsilon: Optional[float] = None, rating_min: Optional[float] = None, rating_max: Optional[float] = None,
        seed: Optional[int] = None, test: float = 0.0, settings: Optional[Mapping[str, Any]] = None, out: Optional[PathLike] = None, items: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.epsilon = epsilon
        self.rating_min = rating_min
        self.rating_max = rating_max
        self.seed = seed
        self.test = test
        self.settings = settings
        self.out = out
        self.items = items

    def fit(self, X: Any, y: Any = None) -> "Recommender":
        """Train.

        Parameters
        ----------
        X : array of shape (n, 2) or (n, 3), DataFrame, list of pairs or sparse matrix
            Users and items, and perhaps timestamps.
        y : array of shape (n,), optional
            Ratings. Default: the column rating of `X`.

        Returns
        -------
        self
        """
        there = dict(columns_in(X, _ROLES))
        if y is not None:
            there = {name: values for name, values in there.items() if name.lower() not in ALIASES["rating"]}
            y = np.asarray(y)
            there["rating"] = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y  # a column of a frame
        ratings = columns_of(there)
        if "rating" not in ratings:
            raise UsageError("y is missing: ratings are needed, as y or as the column rating of X")
        out = self.out
        if out is None:
            out = self._own_folder()
        given = join_settings({name: x for name, x in levels_of(self.settings).items() if name != "algorithm"})
        low, high = _scale(self.rating_min, given, "rating-min", 1.0), _scale(self.rating_max, given, "rating-max", 5.0)
        said: Dict[str, Any] = {"rating_min": low, "rating_max": high, "seed": self.seed, "baselines": None if "baselines" in given else "quick"}
        kinds = kinds_of(there)
        columns = {role: kinds.typed(role, values) if role in kinds.kinds else values for role, values in ratings.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="baselines has no effect")  # some algorithms have none
            if self.test or not _HELD_OUT & set(given):
                said["split__test"] = self.test or 0
            self.result_ = run(
                columns, self.algorithm, self.epsilon, items=self.items, out=out, settings=self.settings, progress=False, **said
            )
        self.result_._home = getattr(self, "_folder", None)
        self._levels(ratings, low, high)
        return self

    def _levels(self, ratings: Mapping[str, List[Any]], low: float, high: float) -> None:
        """Keep what predicts a pair that the model does not know: the scale, and each user's deviation from what the model says of the items to everybody."""
        model, self._scale_ = self.result_.model, (low, high)
        items = sorted(set(ratings["item"]))
        self._popular: Dict[str, float] = {}
        known = model.predict([None] * len(items), items)
        self._popular = {item: float(x) for item, x in zip(items, known) if x == x}
        self._middle = float(np.mean(list(self._popular.values()))) if self._popular else (low + high) / 2
        sums: Dict[str, Tuple[float, int]] = {}
        for user, item, rating in zip(ratings["user"], ratings["item"], ratings["rating"]):
            d, n = sums.get(user, (0.0, 0))
            sums[user] = (d + float(rating) - self._popular.get(item, self._middle), n + 1)
        self._deviation = {user: d / (n + _DAMPING) for user, (d, n) in sums.items()}

    def predict(self, X: Any) -> Any:
        """Predict ratings.

        Parameters
        ----------
        X : array of shape (n, 2), DataFrame or list of pairs
            Users and items.

        Returns
        -------
        ndarray of float
            For an item that was not in the training the mean item, and the user's own deviation from what the model says to
            a user without ratings. For a user who was not in the training what the model says to a user without ratings.
        """
        self._check_fitted()
        pairs = columns_of(X, roles=_ROLES, only=("user", "item"))
        predicted = self.result_.model.predict(pairs["user"], pairs["item"])
        for k in np.flatnonzero(np.isnan(predicted)):
            user, item = pairs["user"][k], pairs["item"][k]
            predicted[k] = np.clip(self._popular.get(item, self._middle) + self._deviation.get(user, 0.0), *self._scale_)
        return predicted

    def recommend(self, user: Any, n: int = 10) -> Any:
        """List items that a user might like and has not rated.

        Parameters
        ----------
        user : str or int
            The user's id.
        n : int
            How many items.

        Returns
        -------
        DataFrame
        """
        self._check_fitted()
        return self.result_.model.recommend(user, n)

    def _check_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise NotFittedError("this Recommender is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(self.__dict__)
        folder = state.pop("_folder", None)
        if folder is not None:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as t:
                t.add(folder, ".")
            state["_packed"] = (packed.getvalue(), self.result_.folder.name, self.result_._env)
            state.pop("result_", None)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        packed = state.pop("_packed", None)
        self.__dict__.update(state)
        if packed is not None:
            folder = self._own_folder()
            with tarfile.open(fileobj=io.BytesIO(packed[0])) as t:
                t.extractall(folder)
            self.result_ = Result(Path(folder) / packed[1], packed[2])
            self.result_._home = folder

    def _own_folder(self) -> str:
        """Return a new folder, which lasts as long as this estimator, its result or its model."""
        self._folder = _Folder(tempfile.mkdtemp(prefix="fedsim-"))
        weakref.finalize(self._folder, _remove, str(self._folder), os.getpid())
        return self._folder


class _Folder(str):
    """A folder whose last use can be waited for; that of a plain text cannot."""


def _remove(folder: str, owner: int) -> None:
    """Remove a folder. A forked process leaves its parent's alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


_ROLES = ("user", "item", "timestamp")
_HELD_OUT = {"split.test", "split.test-file", "split.fold", "split.by"}  # keys by which settings say what the training leaves out


def _scale(own: Optional[float], given: Mapping[str, str], key: str, usual: float) -> Any:
    """Return an end of the scale: of the parameter, or else of the settings."""
    if own is not None:
        return own
    if key in given:
        return float(given[key])
    return usual
