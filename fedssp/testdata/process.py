"""Prints process.json: a user's predictions by a Gaussian process, in plain Python.

A prediction is mu + b_j + f(j). f is a Gaussian process on items with the covariance

    k(i, j) = 1/5 + (<v_i, v_j> + z_i z_j)/2 + sum over features of both items x_i x_j / taste

of the user's bias, embedding, weight of popularity z and weights of features. Ratings have noise of
variance 1. So f = K* (K + I)^-1 (y - mu - b), with matrices as large as there are ratings. Nothing is
solved for weights of features. `taste` follows from the covariances of the rated items' features about
their mean, in the same dual form, as the comment of user.TasteRidge says.
"""
import json
import math

RIDGE, BIAS_RIDGE, WEIGHT, LENGTH = 2.0, 5.0, 0.35, 4.0
USUAL, NOISE, LEAST, MOST = 0.5, 3 / 64, 0.05, 8

GENRES = ["Comedy", "Drama", "War", "Western"]
items = []
for j in range(20):
    genres = [g for k, g in enumerate(GENRES) if (j * 7 + k * k + j // 3) % 3 == 0] or ["Drama"]
    items.append({"year": 1950 + (j * 13) % 47, "genres": genres, "bias": ((j * 5) % 11 - 5) / 16,
                  "popularity": ((j * 3) % 13 - 6) / 32, "embedding": [((j * 4) % 9 - 4) / 8, ((j * 2) % 7 - 3) / 8]})
ratings = {j: 1.0 + (j * 11 + j // 2) % 5 for j in range(0, 20, 2)}
MEAN = 3.25


def near(year, span):
    start = year - year % span
    part = (year - start) / span
    return {start: 1 - part, start + span: part} if part else {start: 1.0}


def categories(item):
    yield {g: 1.0 for g in item["genres"]}
    yield near(item["year"], 10)
    yield {(g, era): w for g in item["genres"] for era, w in near(item["year"], 20).items()}


def features(item):
    out = {}
    for c, category in enumerate(categories(item)):
        norm = math.sqrt(sum(w * w for w in category.values()))
        for value, w in category.items():
            out[c, value] = WEIGHT * w / norm
    return out


rows = [features(i) for i in items]
shared = {f for row in rows for f in row if sum(f in other for other in rows) > 1}
assert len(shared) <= 48, len(shared)
rows = [{f: x for f, x in row.items() if f in shared} for row in rows]


def product(a, b):
    return sum(x * b.get(f, 0.0) for f, x in a.items())


def solve(a, b):
    n = len(b)
    a = [row[:] + [b[i]] for i, row in enumerate(a)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[p] = a[p], a[i]
        for k in range(n):
            if k != i:
                f = a[k][i] / a[i][i]
                a[k] = [x - f * y for x, y in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


rated = sorted(ratings)
n = len(rated)
left = [ratings[j] - MEAN - items[j]["bias"] for j in rated]
gram = [[product(rows[i], rows[j]) for j in rated] for i in rated]
row_means = [sum(r) / n for r in gram]
total = sum(row_means) / n
centred = [[gram[i][j] - row_means[i] - row_means[j] + total for j in range(n)] for i in range(n)]
about = [x - sum(left) / n for x in left]
s = NOISE * LENGTH ** 2
seen = sum(about[i] * centred[i][j] * about[j] for i in range(n) for j in range(n)) / s - sum(centred[i][i] for i in range(n))
norm = sum(x * x for r in centred for x in r)
m = (1 / USUAL + seen / (2 * RIDGE)) / (1 / USUAL ** 2 + norm / (2 * RIDGE ** 2))
taste = RIDGE / min(max(m, LEAST), MOST)


def covariance(i, j):
    a, b = items[i], items[j]
    head = sum(x * y for x, y in zip(a["embedding"], b["embedding"])) + a["popularity"] * b["popularity"]
    return 1 / BIAS_RIDGE + head / RIDGE + product(rows[i], rows[j]) / taste


weights = solve([[covariance(i, j) + (i == j) for j in rated] for i in rated], left)
for j, item in enumerate(items):
    item["rating"] = ratings.get(j, 0)
    item["prediction"] = MEAN + item["bias"] + sum(covariance(j, i) * w for i, w in zip(rated, weights))
print(json.dumps(items, indent=1))
