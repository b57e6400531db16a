"""NCF: a small network over the embeddings of a user and an item. Item embeddings and weights are shared; the user's own stays."""

import numpy as np

from fedsim.own import Algorithm, Release


class NCF(Algorithm):
    dim, hidden, clip, step, rate, steps, rounds = 4, 8, 2.0, 0.2, 0.1, 3, 10

    def sizes(self):
        return [self.problem.items * self.dim, 2 * self.dim * self.hidden, self.hidden]

    def parts(self, vector):
        items, first, last = np.split(vector, np.cumsum(self.sizes())[:-1])
        return items.reshape(-1, self.dim), first.reshape(2 * self.dim, self.hidden), last

    def release(self):
        return Release(length=sum(self.sizes()), l2=self.clip)

    def start(self):
        self.middle = (self.problem.rating_min + self.problem.rating_max) / 2
        return np.random.default_rng(self.problem.seed).normal(0, 0.3, sum(self.sizes()))

    def layers(self, own, items, first, last):
        x = np.concatenate([np.broadcast_to(own, items.shape), items], axis=1)
        h = np.tanh(x @ first)
        return x, h, self.middle + 2 * (h @ last)

    def learn(self, j, r, model):
        """Fit the user's own embedding, and return it with the gradient of the shared parameters."""
        items, first, last = self.parts(model)
        own = np.zeros(self.dim)
        for _ in range(self.steps + 1):
            x, h, predicted = self.layers(own, items[j], first, last)
            e = 2 * (r - predicted)
            back = (e[:, None] * last) * (1 - h**2)
            to_x = back @ first.T
            own = own + self.rate * (to_x[:, : self.dim].mean(axis=0) - 0.1 * own) if len(j) else own
        gradient = np.zeros_like(items)
        gradient[j] = to_x[:, self.dim :]
        return own, np.concatenate([gradient.ravel(), (x.T @ back).ravel(), h.T @ e])

    def contribute(self, users, model):
        return np.array([self.learn(j, r, model)[1] for j, r in users])

    def absorb(self, sum, model):
        return model + self.step * sum / self.survivors

    def predict(self, users, model):
        items, first, last = self.parts(model)
        return np.array([self.layers(self.learn(j, r, model)[0], items, first, last)[2] for j, r in users])
