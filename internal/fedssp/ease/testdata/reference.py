"""Writes reference.json: private-ease on a small made-up set, in NumPy, from the formulas of EASE
(Steck, WWW 2019, equation 8) and of doc.go. Run it with python3 in this folder. It inverts the Gram
matrix as a whole, where the Go code works with eigenvectors."""
import json
import numpy as np

rng = np.random.default_rng(46)
items, users, top, norm, ridge, sigma = 40, 150, 25, np.sqrt(10.0), 0.5, 0.4
taste = rng.integers(0, 4, users)
chance = 0.5 * np.exp(-np.arange(items) / 15)[None, :] * np.where(np.arange(items)[None, :] % 4 == taste[:, None], 1.6, 0.3)
X = (rng.random((users, items)) < chance).astype(float)
X[0] = 0

counts = (X / np.sqrt(np.maximum(X.sum(1, keepdims=True), 1))).sum(0)
least = 0.1
popular = np.where(counts > least, counts, least * np.exp(np.minimum(0, counts / least - 1)))
chosen = np.sort(np.lexsort((np.arange(items), -popular))[:top])
weight = np.maximum(popular[chosen], popular.max() / 400) ** -0.4
weight /= weight.mean()
upper = np.triu_indices(top)

gram = np.zeros((top, top))
for x in X:
    y = x[chosen] * weight
    pairs = np.outer(y, y)
    length = np.linalg.norm(pairs[upper])
    gram += pairs * (min(1, norm / length) if length > 0 else 1)

def scores(g, sigma):
    sample = norm * max(0, np.trace(g)) / np.sqrt(2) / top**2 if sigma else 0
    edge = 2 * np.sqrt(top * (sigma**2 + sample))
    r = np.hypot(ridge * edge, 0.25 * np.sqrt(max(1, np.trace(g))))
    values, vectors = np.linalg.eigh(g)
    kept = (values > edge) & (values > 0)
    clean = (vectors * np.where(kept, np.sqrt(np.maximum(values**2 - edge**2, 0)), 0)) @ vectors.T
    largest = np.sqrt(max(0, values[-1] ** 2 - edge**2))
    q = largest / (largest + r)
    reliance = max(0, 1 - 2 * ((1 - q) / q) ** 2)
    P = np.linalg.inv(clean + r * np.eye(top))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    out = np.tile(np.log(popular), (users, 1))
    z = np.maximum((X[:, chosen] * weight) @ B / weight, 0)
    share = popular[chosen] / popular[chosen].sum()
    for u in range(users):
        if z[u].sum() > 0:
            ratio = z[u] / z[u].sum() / share
            # The likeliest part of pairs in a mixture with popularity, over the user's chosen items, with 2/reliance more items at 0.4 times it.
            part = np.array([0.4 * reliance])
            for _ in range(20):
                own = part * ratio[X[u, chosen] > 0]
                part = (0.8 + (own / (own + 1 - part)).sum(keepdims=True)) / (2 / reliance + own.size)
            out[u, chosen] += np.log(part * ratio + 1 - part)
    return out, int(kept.sum())

def lists(s):
    s = np.where(X > 0, -np.inf, s)
    return [np.lexsort((np.arange(items), -row))[:5].tolist() for row in s[:12]]

noise = np.triu(rng.normal(0, sigma, (top, top)))
noisy = gram + noise + np.triu(noise, 1).T
exact, _ = scores(gram, 0)
disturbed, spikes = scores(noisy, sigma)
# A user's taste for years: a smoothed share beside its share in popularity, as far as chance does not explain it, with a prior of 15 items.
# The last item has no year. Items are drawn one by one by popularity: the variance of a smoothed share of n is that of the kernel, over n.
years = rng.integers(1980, 2000, items)
years[-1] = 0
known = years > 0
kernel = np.exp(-(((years[:, None] - years[None, :]) / 3.0) ** 2) / 2) * np.outer(known, known)
share = np.where(known, popular, 0) / popular[known].sum()
usual = np.where(known, kernel @ share, 1)
chance = (share * ((kernel**2 @ share) / usual**2 - 1)).sum()
n = np.maximum((X[:12] @ known)[:, None], 1e-300)
apart = (X[:12] @ kernel) / n / usual - 1
keep = np.maximum(0, 1 - chance / (n * share * apart**2).sum(1, keepdims=True)) * n / (n + 15)
dated = exact[:12] + np.where(known, 0.8 * np.log1p(keep * apart), 0)

# True counts behind noisy ones: 40 heights up to 8 deviations, 100 steps of expectation and maximization over bins of an eighth
# of a deviation, and the mean height given the count.
counts_noise = 2.0
noisy_counts = counts + rng.normal(0, counts_noise, items)
heights = 8 / 1.2 ** np.arange(39, -1, -1)
z = noisy_counts / counts_noise
chances = np.full(40, 1 / 40)
binned = np.floor(np.clip(z, -8, 8) * 8 + 0.5) / 8
for _ in range(100):
    joint = np.exp(-((binned[:, None] - heights) ** 2) / 2) * chances
    chances = (joint / joint.sum(1, keepdims=True)).mean(0)
joint = np.exp(-((np.clip(z, -8, 8)[:, None] - heights) ** 2) / 2) * chances
popular = counts_noise * (joint @ heights / joint.sum(1) + np.maximum(0, z - 8)) * np.exp(np.minimum(0, z + 8))

json.dump({
    "NoisyCounts": noisy_counts.tolist(), "Popular": popular.tolist(), "CountsNoise": counts_noise,
    "Items": items, "Top": top, "Norm": norm, "Users": [np.flatnonzero(x).tolist() for x in X], "Counts": counts.tolist(), "Gram": gram[upper].tolist(),
    "Sigma": sigma, "Ridge": ridge, "Scores": exact[:12].round(10).tolist(), "NoisyGram": noisy[upper].tolist(), "Spikes": spikes,
    "Years": years.tolist(), "DatedScores": dated.round(10).tolist(), "Dated": lists(np.vstack([dated, exact[12:]])),
    "NoisyScores": disturbed[:12].round(10).tolist(), "Lists": lists(exact), "Noisy": lists(disturbed),
}, open("reference.json", "w"))
