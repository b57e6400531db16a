"""An estimator as scikit-learn has them: ``fit``, ``predict``, ``score``."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from ._command import PathLike
from ._frames import columns_of
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
                raise ValueError(f"there is no parameter {name!r}; there are {', '.join(there)}")
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


class Recommender(_Estimator):  # type: ignore[misc]
    """A private recommender with ``fit`` and ``predict``.

    Parameters
    ----------
    algorithm : str
        How to train.
    epsilon : float
        The privacy budget of all ratings of a user.
    rating_min, rating_max : float
        The scale of the ratings, which must be public.
    seed : int
        Everything random follows from it.
    test : float
        The share of the ratings that `fit` does not train on: the command measures quality on it.
    settings : mapping, optional
        Any other keys, as of :func:`fedsim.run`.
    out : path, optional
        Where the run is kept. Default: a folder that lasts as long as the estimator.

    Attributes
    ----------
    result_ : Result
        The finished run.

    Examples
    --------
    >>> Recommender(epsilon=5).fit(X, y).predict(X[:3])  # doctest: +SKIP
    """

    def __init__(
        self, algorithm: str = "ssp-c", epsilon: float = 10.0, rating_min: float = 1.0, rating_max: float = 5.0, seed: int = 1,
        test: float = 0.01, settings: Optional[Mapping[str, Any]] = None, out: Optional[PathLike] = None,
    ) -> None:
        self.algorithm = algorithm
        self.epsilon = epsilon
        self.rating_min = rating_min
        self.rating_max = rating_max
        self.seed = seed
        self.test = test
        self.settings = settings
        self.out = out

    def fit(self, X: Any, y: Any = None) -> "Recommender":
        """Train.

        Parameters
        ----------
        X : array of shape (n, 2) or (n, 3), or DataFrame
            Users and items, and perhaps timestamps.
        y : array of shape (n,), optional
            Ratings. Default: the column rating of `X`.

        Returns
        -------
        self
        """
        ratings = _pairs(X)
        if y is not None:
            ratings["rating"] = np.asarray(y).tolist()
        if "rating" not in ratings:
            raise ValueError("y is missing: ratings are needed, as y or as the column rating of X")
        out = self.out
        if out is None:
            self._folder = tempfile.TemporaryDirectory(prefix="fedsim-")
            out = self._folder.name
        said = {"rating-min": self.rating_min, "rating-max": self.rating_max, "seed": self.seed, "split.test": self.test, "baselines": "quick"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="baselines has no effect")  # some algorithms have none
            self.result_ = run(ratings, self.algorithm, self.epsilon, out=out, settings={**said, **(self.settings or {})}, progress=False)
        return self

    def predict(self, X: Any) -> Any:
        """Predict ratings.

        Parameters
        ----------
        X : array of shape (n, 2), or DataFrame
            Users and items.

        Returns
        -------
        ndarray of float
            The middle of the scale for a user or an item that was not in the training.
        """
        if not hasattr(self, "result_"):
            raise ValueError("this Recommender is not fitted yet; call fit first")
        pairs = _pairs(X)
        predicted = self.result_.model.predict(pairs["user"], pairs["item"])
        return np.where(np.isnan(predicted), (self.rating_min + self.rating_max) / 2, predicted)

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
        if not hasattr(self, "result_"):
            raise ValueError("this Recommender is not fitted yet; call fit first")
        return self.result_.model.recommend(user, n)


def _pairs(X: Any) -> Dict[str, List[Any]]:
    """Return the columns of pairs."""
    if hasattr(X, "columns") or isinstance(X, Mapping):
        return columns_of(X)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(f"X has the shape {array.shape}; (n, 2) is needed for users and items, or (n, 3) with timestamps")
    return columns_of({name: array[:, k] for k, name in enumerate(("user", "item", "timestamp")[: array.shape[1]])})
