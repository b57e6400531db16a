#!/usr/bin/env python3
"""ε of the best of a random number of runs, by brute force over the number of runs.

The values of TestBestOf in search_test.go come from here. Runs have normal likelihood ratios. The best is chosen in an order that ranks low
ratios first and then high ones, and is told with a score. Each number of runs has its probability by the definition of
the truncated negative binomial law; the generating function in closed form is not used. It needs NumPy and SciPy.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import norm


def epsilon(eta, gamma, mu, score, first, delta):
    runs = np.arange(1, 4000)
    weight = runs * np.log1p(-gamma) + gammaln(runs + eta) - gammaln(runs + 1)
    law = np.exp(weight - weight.max())
    law /= law.sum()
    edges = np.linspace(-8 * mu - mu * mu / 2, 8 * mu + mu * mu / 2, 4001)
    middle = (edges[1:] + edges[:-1]) / 2
    order = np.concatenate([np.where(middle <= first)[0], np.where(middle > first)[0][::-1]])
    grid = np.linspace(-7, 7 + score, 401)
    joint = []
    for world in (0, 1):
        mean = (world - 0.5) * mu * mu
        one = np.diff(norm.cdf((edges - mean) / mu))[order]
        worse = np.concatenate([np.cumsum(one[::-1])[::-1], [0.0]])  # as good, or worse
        all_worse = (law[None, :] * worse[:, None] ** runs[None, :]).sum(1)
        best = all_worse[:-1] - all_worse[1:]
        joint.append(np.outer(best, np.diff(norm.cdf(grid - world * score))).ravel())

    def beyond(e):
        a, b = joint
        return max(np.maximum(0, b - np.exp(e) * a).sum(), np.maximum(0, a - np.exp(e) * b).sum()) - delta

    return brentq(beyond, 1e-3, 40)


for case in [(0, 0.1, 1.0, 0.22, -1.0, 1e-5), (1, 0.1, 0.5, 0.1, -0.4, 1e-3), (0.5, 0.3, 1.5, 0.3, -1.5, 1e-5), (1, 0.25, 1.13, 0.25, -5.0, 1e-4)]:
    print(case, epsilon(*case))
