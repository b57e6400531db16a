"""FedAvg of a parameter vector: each client takes steps on its own ratings, and the server averages where they lead."""

import numpy as np

from fedsim.own import Algorithm, Release


class FedAvg(Algorithm):
    rate, steps, clip, server_rate, rounds = 0.2, 5, 1.0, 3.0, 10

    def release(self):
        return Release(length=1 + self.problem.items, l2=self.clip)  # the mean, and a bias for each item

    def start(self):
        middle = (self.problem.rating_min + self.problem.rating_max) / 2
        return np.append(middle, np.zeros(self.problem.items))

    def contribute(self, users, model):
        w = np.tile(model, (len(users), 1))
        for _ in range(self.steps):
            error = np.zeros_like(w)
            error[users.row, 1 + users.item] = users.rating - w[users.row, 0] - w[users.row, 1 + users.item]
            error[:, 0] = error[:, 1:].sum(axis=1) / np.maximum(np.diff(users.start), 1)
            w += self.rate * error
        return w - model

    def absorb(self, sum, model):
        return model + self.server_rate * sum / self.survivors

    def predict(self, users, model):
        return np.tile(model[0] + model[1:], (len(users), 1))
