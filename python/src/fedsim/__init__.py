"""Private recommenders in a federation: exact noise under dropouts, ledgers and proofs.

The package calls the command ``fedsim`` and reads its files. Nothing is computed twice.

Functions
---------
run, sweep
    Train and measure one experiment, or all combinations of lists of values.
compare, plan, audit
    Test one run against another; say what a run would cost; attack the stated ε.
keys, explain
    List settings; explain an algorithm or a setting.
load, results
    Read finished runs.

Modules
-------
fedsim.estimator
    ``fit``, ``predict`` and ``score``, as scikit-learn has them.
fedsim.own
    Own algorithms.
fedsim.recbole
    Atomic files of RecBole.
fedsim.tracking
    Callbacks for MLflow, TensorBoard and Weights & Biases.
"""

from ._command import command_path
from ._errors import AuditError, CommandNotFoundError, FedsimError, FedsimWarning, NotFittedError, RunNotFoundError, UsageError
from ._model import Model
from ._result import Result, load, split_ratings
from ._run import Plan, Sweep, audit, compare, explain, keys, plan, run, sweep, version
from ._run import table_of as results
from ._version import __version__

__all__ = [
    "AuditError", "CommandNotFoundError", "FedsimError", "FedsimWarning", "Model", "NotFittedError", "Plan", "Result", "RunNotFoundError", "Sweep",
    "UsageError", "__version__", "audit", "command_path", "compare", "explain", "keys", "load", "plan", "results", "run", "split_ratings", "sweep", "version",
]
