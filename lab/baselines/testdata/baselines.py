#!/usr/bin/env python3
"""Rankings of finished runs, computed again by NumPy.

The program takes a folder of MovieLens (ratings.csv and movies.csv) and the folders of runs
with held-out users (--feedback implicit). It trains the run's method on the run's split, from
the formulas of the papers and without any of the Go code. It prints Recall@20 and NDCG@20
of both, as a line of JSON for each run:

    fedsim sweep --data ml-latest-small --algorithm ease,item-knn,ials,fcf,bpr-mf --seeds 1..5 --set split.seed=auto --out runs/ranked
    python3 lab/baselines/testdata/baselines.py ml-latest-small runs/ranked/*/

It needs NumPy. Settings are the defaults of fedsim.
"""

import csv
import json
import os
import sys

import numpy as np

POSITIVE, K, RANK = 4.0, 20, 64


def column(path, *names):
    with open(path, encoding="utf-8", newline="") as f:
        return [tuple(row[n] for n in names) for row in csv.DictReader(f)]


def read(data, run):
    """Liked items of training, and the history and targets of held-out users, by rows."""
    item = {name: j for j, (name,) in enumerate(column(os.path.join(data, "movies.csv"), "movieId"))}
    part = {(u, i): p for u, i, p in column(os.path.join(run, "split.csv"), "user", "item", "part")}
    user, parts = {}, {}
    for u, i, stars in column(os.path.join(data, "ratings.csv"), "userId", "movieId", "rating"):
        at = user.setdefault(u, len(user))
        if float(stars) >= POSITIVE:
            parts.setdefault(part.get((u, i), "train"), []).append((at, item[i]))
    rows = {}
    for name, pairs in parts.items():
        rows[name] = np.zeros((len(user), len(item)))
        rows[name][tuple(np.array(pairs).T)] = 1
    return rows["train"], rows["test-history"], rows["test-target"]


def popularity(train, history):
    return np.tile(train.sum(0), (len(history), 1))


def ease(train, history, ridge=500):
    """Steck 2019, algorithm 1. Items that no user likes have no weights."""
    on = train.sum(0) > 0
    x = train[:, on]
    p = np.linalg.inv(x.T @ x + ridge * np.eye(x.shape[1]))
    b = p / -np.diag(p)
    np.fill_diagonal(b, 0)
    out = np.zeros(history.shape)
    out[:, on] = history[:, on] @ b
    return out


def item_knn(train, history, neighbours=100, shrinkage=10):
    """Cosines with shrinkage, of the nearest items of each item that is scored."""
    on = train.sum(0) > 0
    x, n = train[:, on], train[:, on].sum(0)
    cosine = (x.T @ x) / (np.sqrt(np.outer(n, n)) + shrinkage)
    np.fill_diagonal(cosine, 0)
    nearest = np.argsort(-cosine, axis=0, kind="stable")[:neighbours]
    kept = np.zeros_like(cosine)
    np.put_along_axis(kept, nearest, np.take_along_axis(cosine, nearest, 0), 0)
    out = np.zeros(history.shape)
    out[:, on] = history[:, on] @ kept
    return out


def solved(rows, others, unobserved, ridge):
    """The minimum of iALS for each row, given the embeddings of the other side (Rendle et al. 2022, equation 6)."""
    gram, out = unobserved * others.T @ others, np.zeros((len(rows), others.shape[1]))
    for k, row in enumerate(rows):
        liked = others[row > 0]
        weight = ridge * (len(liked) + unobserved * len(others))
        out[k] = np.linalg.solve(gram + liked.T @ liked + weight * np.eye(len(gram)), liked.sum(0))
    return out


def ials(train, history, rng, passes=16, unobserved=0.1, ridge=0.003):
    items = 0.1 / np.sqrt(RANK) * rng.standard_normal((train.shape[1], RANK))
    for _ in range(passes):
        users = solved(train, items, unobserved, ridge)
        items = solved(train.T, users, unobserved, ridge)
    return solved(history, items, unobserved, ridge) @ items.T


def fcf(train, history, rng, passes=50, rate=0.01, unobserved=0.1, ridge=0.003):
    """Items move by Adam along the gradient of the objective of iALS; clients solve for users."""
    items = 0.1 / np.sqrt(RANK) * rng.standard_normal((train.shape[1], RANK))
    first, second = np.zeros_like(items), np.zeros_like(items)
    weight = ridge * (train.sum(0) + unobserved * len(train))[:, None]
    for step in range(1, passes + 1):
        users = solved(train, items, unobserved, ridge)
        scores = users @ items.T
        slope = 2 * ((train * (scores - 1) + unobserved * scores).T @ users + weight * items)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        items = items - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return solved(history, items, unobserved, ridge) @ items.T


def bpr_mf(train, history, rng, passes=50, rate=0.05, ridge=0.01, folds=30):
    """Rendle et al. 2009, figure 4, with biases of items."""
    users = 0.1 * rng.standard_normal((len(train), RANK))
    items = 0.1 * rng.standard_normal((train.shape[1], RANK))
    bias = np.zeros(train.shape[1])
    pairs = np.argwhere(train > 0)

    def step(u, i, j, both):
        a, b = items[i], items[j]
        slope = 1 / (1 + np.exp(u @ (a - b) + bias[i] - bias[j]))
        moved = rate * (slope * (a - b) - ridge * u)
        if both:
            items[i], items[j] = a + rate * (slope * u - ridge * a), b + rate * (-slope * u - ridge * b)
            bias[i] += rate * (slope - ridge * bias[i])
            bias[j] += rate * (-slope - ridge * bias[j])
        u += moved

    def other(likes):
        j = rng.integers(len(likes))
        while likes[j]:
            j = rng.integers(len(likes))
        return j

    for _ in range(passes * len(pairs)):
        u, i = pairs[rng.integers(len(pairs))]
        step(users[u], i, other(train[u]), True)
    fitted = np.zeros((len(history), RANK))
    for u in np.flatnonzero(history.sum(1)):
        own = np.flatnonzero(history[u])
        for _ in range(folds * len(own)):
            step(fitted[u], own[rng.integers(len(own))], other(history[u]), False)
    return fitted @ items.T + bias


def measured(scores, history, target):
    """Recall@K and NDCG@K as in Liang et al. 2018: means over users with a target."""
    recall, ndcg = [], []
    discount = 1 / np.log2(np.arange(2, K + 2))
    for row, known, wanted in zip(scores, history, target):
        if not wanted.any():
            continue
        row = np.where(known > 0, -np.inf, row)
        hits = wanted[np.argsort(-row, kind="stable")[:K]]
        best = min(K, int(wanted.sum()))
        recall.append(hits.sum() / best)
        ndcg.append((hits * discount).sum() / discount[:best].sum())
    return {"recall@20": float(np.mean(recall)), "ndcg@20": float(np.mean(ndcg))}


METHODS = {"ease": ease, "item-knn": item_knn, "ials": ials, "fcf": fcf, "bpr-mf": bpr_mf}
DRAWN = {"ials", "fcf", "bpr-mf"}


def main(data, runs):
    for run in runs:
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as f:
            summary = json.load(f)
        name = summary["algorithm"]
        train, history, target = read(data, run)
        draws = [np.random.default_rng(int(summary["settings"]["seed"]))] if name in DRAWN else []
        print(json.dumps({
            "run": os.path.basename(os.path.normpath(run)), "algorithm": name,
            "fedsim": {k: summary["ranking"][k] for k in ("recall@20", "ndcg@20")},
            "numpy": measured(METHODS[name](train, history, *draws), history, target),
            "fedsim popularity": summary["baselines"]["popularity"],
            "numpy popularity": measured(popularity(train, history), history, target)["recall@20"],
        }), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
