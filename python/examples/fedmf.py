"""FedMF: matrix factorisation whose items the federation learns, and whose users stay with their clients."""

import numpy as np

from fedsim.own import Algorithm, Release


class FedMF(Algorithm):
    rank, ridge, clip, step, rounds = 4, 2.0, 2.0, 0.5, 20

    def release(self):
        return Release(length=self.problem.items * self.rank, l2=self.clip)

    def start(self):
        self.middle = (self.problem.rating_min + self.problem.rating_max) / 2
        return np.random.default_rng(self.problem.seed).normal(0.5, 0.1, (self.problem.items, self.rank))

    def fit(self, users, model):  # each user's own embedding: a ridge regression that never leaves the client
        eye = self.ridge * np.eye(self.rank)
        return np.array([np.linalg.solve(model[j].T @ model[j] + eye, model[j].T @ (r - self.middle)) for j, r in users])

    def contribute(self, users, model):
        u = self.fit(users, model)
        error = users.rating - self.middle - np.sum(u[users.row] * model[users.item], axis=1)
        out = np.zeros((len(users), self.problem.items, self.rank))
        out[users.row, users.item] = error[:, None] * u[users.row]
        return out.reshape(len(users), -1)

    def absorb(self, sum, model):
        return model + self.step * sum.reshape(model.shape) / np.sqrt(self.survivors)

    def predict(self, users, model):
        return self.middle + self.fit(users, model) @ model.T
