#!/usr/bin/env python3
"""Metrics of lists of recommendations, computed from their definitions.

Writes lists.json beside itself: a small made-up set of ratings and predictions, and what
the metrics of it are. The definitions are those of RecBole's and LensKit's documentation,
written here with sets and sorted lists, and without any of the Go code. It needs Python 3
and nothing else:

    python3 eval/testdata/lists.py
"""

import json
import math
import os
import random

USERS, ITEMS, CUTOFFS, RELEVANT = 14, 40, [1, 3, 10, 35], 4


def made():
    """Ratings by part, as [user, item, stars], and predictions without ties, which have a test of their own."""
    r = random.Random(20)
    parts = {"train": [], "validation": [], "test": []}
    for user in range(USERS):
        # Items with a low number are rated more. The last user has rated nearly everything.
        for item in range(ITEMS):
            if r.random() < (0.93 if user == USERS - 1 else 1.4 / (1 + item / 4)):
                part = r.choice(["train"] * 5 + ["validation"] + ["test"] * 3)
                if user != 0 or part != "test":  # user 0 has no test rating
                    parts[part].append([user, item, r.choice([1, 2, 3, 3.5, 4, 4.5, 5])])
    scores = [[r.gauss(3.5, 1) for _ in range(ITEMS)] for _ in range(USERS)]
    return parts, scores


def lists(parts, scores):
    """Each user's list of all items, the best first, and what the user wants of it."""
    for user in range(USERS):
        wanted = {i for u, i, x in parts["test"] if u == user and x >= RELEVANT}
        seen = {i for part in ("train", "validation") for u, i, _ in parts[part] if u == user}
        if wanted:
            yield sorted(set(range(ITEMS)) - seen, key=lambda i: -scores[user][i]), wanted


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def dcg(gains):
    return math.fsum(g / math.log2(rank + 1) for rank, g in enumerate(gains, 1))


def average_precision(top, wanted, k):
    return math.fsum(len(wanted & set(top[:r])) / r for r in range(1, len(top) + 1) if top[r - 1] in wanted) / min(k, len(wanted))


def reciprocal_rank(top, wanted):
    ranks = [r for r, item in enumerate(top, 1) if item in wanted]
    return 1 / ranks[0] if ranks else 0


def gini(counts):
    """Half of the mean absolute difference of two items, over the mean."""
    n = len(counts)
    return sum(abs(a - b) for a in counts for b in counts) / (2 * n * n * (sum(counts) / n))


def metrics(parts, scores, k):
    tops = [(full[:k], wanted) for full, wanted in lists(parts, scores)]
    count = [sum(1 for _, i, _ in parts["train"] if i == item) for item in range(ITEMS)]
    raters = len({u for u, _, _ in parts["train"]})
    rated = sorted((n, item) for item, n in enumerate(count) if n)
    tail = {item for _, item in rated[: max(1, int(0.1 * len(rated)))]}
    shown = [sum(top.count(item) for top, _ in tops) for item in range(ITEMS)]
    return {
        "recall": mean(len(wanted & set(top)) / min(k, len(wanted)) for top, wanted in tops),
        "full_recall": mean(len(wanted & set(top)) / len(wanted) for top, wanted in tops),
        "precision": mean(len(wanted & set(top)) / len(top) for top, wanted in tops),
        "ndcg": mean(dcg([i in wanted for i in top]) / dcg([1] * min(k, len(wanted))) for top, wanted in tops),
        "map": mean(average_precision(top, wanted, k) for top, wanted in tops),
        "mrr": mean(reciprocal_rank(top, wanted) for top, wanted in tops),
        "hit": mean(bool(wanted & set(top)) for top, wanted in tops),
        "itemcoverage": len({i for top, _ in tops for i in top}) / ITEMS,
        "giniindex": gini(shown),
        "averagepopularity": mean(mean(count[i] for i in top) for top, _ in tops),
        "tailpercentage": mean(mean(i in tail for i in top) for top, _ in tops),
        "novelty": mean(mean(-math.log2(max(count[i], 1) / raters) for i in top) for top, _ in tops),
    }


def main():
    parts, scores = made()
    users = len(list(lists(parts, scores)))
    out = {"users": USERS, "items": ITEMS, "relevant": RELEVANT, "with_relevant": users, **parts, "scores": scores,
           "metrics": {str(k): metrics(parts, scores, k) for k in CUTOFFS}}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lists.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
