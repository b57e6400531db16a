"""Algorithms of one's own for the tests, some of which fail."""

import os
import subprocess
import time

import numpy as np

from fedsim.own import Algorithm, Release


class Mean(Algorithm):
    """The mean of each item's ratings, by sums and counts of bounded norm."""

    rounds, bound, lie, bad, where, when, pause = 2, 4.0, 1.0, "", "contribute", 0, 0.0

    def release(self):
        return Release(length=2 * self.problem.items, l2=self.bound)

    def start(self):
        if self.where == "open":
            self.fail(None)
        return np.full((self.problem.items, 1), 3.0)

    def contribute(self, users, model):
        print("printed by the algorithm")
        out = np.zeros((len(users), 2 * self.problem.items))
        out[users.row, users.item] = users.rating - 3
        out[users.row, self.problem.items + users.item] = 1
        out *= self.lie * self.bound / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return self.fail(out) if self.where == "contribute" else out

    def fail(self, out):
        if self.when not in (0, self.round):
            return out
        if self.bad == "raise":
            raise RuntimeError("a fault of mine")
        if self.bad == "crash":
            os.write(2, b"last words\n")
            os._exit(7)
        if self.bad == "hang":
            time.sleep(60)
        if self.bad == "reads":
            out[:] = 0 if subprocess.run(["cat"], stdout=subprocess.PIPE, check=True).stdout else out
            input()
        if self.bad == "nan":
            out[0, 5] = np.nan
        if self.bad == "shape":
            return out[:, 1:]
        return out

    def absorb(self, sum, model):
        time.sleep(self.pause)
        n = self.problem.items
        if self.where == "absorb":
            return model[1:]
        return (3 + sum[:n] / np.maximum(sum[n:], 1))[:, None]

    def predict(self, users, model):
        out = np.tile(model.T, (len(users), 1))
        return self.fail(out) if self.where == "predict" else out


class Mixed(Mean):
    """A mistake: what a user sends, or what the server makes of a sum, depends on the ratings of other users."""

    how, seen = "", 0.0

    def contribute(self, users, model):
        out = super().contribute(users, model)
        if self.how == "batch":
            return out - out.mean(axis=0)
        if self.how == "memory":
            out[:, 0] += self.seen
            self.seen += users.rating.mean()
        self.mean = users.rating.mean()
        return out

    def absorb(self, sum, model):
        return super().absorb(sum, model) + (self.mean if self.how == "server" else 0)


class Phases(Algorithm):
    """Counts first, then means of the items that were rated, with the mean of the public features for the others."""

    rounds, first = 3, 1

    def release(self):
        n = self.problem.items
        return [Release(length=n, l2=n**0.5, rounds=self.first, phase="counts"), Release(length=2 * n, l2=20.0, phase="pairs")]

    def start(self):
        return np.zeros((self.problem.items, 2 + self.problem.features.shape[1]))

    def contribute(self, users, model):
        n = self.problem.items
        out = np.zeros((len(users), n if self.phase == "counts" else 2 * n))
        out[users.row, users.item] = 1 if self.phase == "counts" else users.rating
        if self.phase == "pairs":
            out[users.row, n + users.item] = 1
        return out

    def absorb(self, sum, model):
        n, model = self.problem.items, model.copy()
        if self.phase == "counts":
            model[:, 0], model[:, 2:] = sum, self.problem.features
        else:
            model[:, 1] = sum[:n] / np.maximum(sum[n:], 1)
        return model

    def predict(self, users, model):
        return np.tile(np.clip(model[:, 1], 1, 5), (len(users), 1))
