"""Two spirals and a small neural network that learns to tell them apart, with nothing but Python.

Both quick-start jobs train this. Everything is a plain list of floats, so that what travels between the
replicas is easy to see; the same numbers come out on every machine.
"""

import hashlib
import math
import random
import sys
from array import array

HIDDEN = 32
SIZE = 4 * HIDDEN + 1  # two weights and a bias into each hidden unit, one weight out of it, one bias
POINTS = 9600
BATCH = 64  # points per replica and step
EPOCHS = 20


def points():
    """The whole data set, shuffled, the same in every process."""
    rng = random.Random(7)
    data = []
    for number in range(POINTS):
        label = number % 2
        turn = rng.random()
        angle = 2.5 * math.pi * turn + label * math.pi
        radius = 0.15 + turn
        x = radius * math.cos(angle) + rng.gauss(0, 0.05)
        y = radius * math.sin(angle) + rng.gauss(0, 0.05)
        data.append((x, y, label))
    rng.shuffle(data)
    return data


def initial():
    """The parameters to begin with, the same in every process."""
    rng = random.Random(1)
    return [rng.gauss(0, 1.2) for _ in range(SIZE - 1)] + [0.0]


def gradient(parameters, batch):
    """Gradient of the mean loss over a batch, then the sum of its losses and the number of right answers."""
    slopes = [0.0] * SIZE
    loss = right = 0.0
    for x, y, label in batch:
        hidden = []
        score = parameters[-1]
        for unit in range(HIDDEN):
            at = 4 * unit
            value = math.tanh(parameters[at] * x + parameters[at + 1] * y + parameters[at + 2])
            hidden.append(value)
            score += parameters[at + 3] * value
        answer = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
        loss -= math.log(max(answer if label else 1 - answer, 1e-12))
        right += (answer > 0.5) == bool(label)
        error = (answer - label) / len(batch)
        slopes[-1] += error
        for unit, value in enumerate(hidden):
            at = 4 * unit
            back = error * parameters[at + 3] * (1 - value * value)
            slopes[at] += back * x
            slopes[at + 1] += back * y
            slopes[at + 2] += back
            slopes[at + 3] += error * value
    return slopes, loss, right


class Adam:
    """The optimiser. Given the same gradients it takes the same steps, wherever it runs."""

    def __init__(self, rate=0.02):
        self.rate, self.step = rate, 0
        self.mean, self.square = [0.0] * SIZE, [0.0] * SIZE

    def update(self, parameters, slopes):
        self.step += 1
        scale = self.rate * math.sqrt(1 - 0.99**self.step) / (1 - 0.9**self.step)
        for index, slope in enumerate(slopes):
            self.mean[index] += 0.1 * (slope - self.mean[index])
            self.square[index] += 0.01 * (slope * slope - self.square[index])
            parameters[index] -= scale * self.mean[index] / (math.sqrt(self.square[index]) + 1e-8)


def digest(parameters):
    """Short name of these exact parameters: equal only if every bit is."""
    return hashlib.sha256(array("d", parameters).tobytes()).hexdigest()[:16]


def say(text):
    """One write per line, so that lines of several processes do not mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def progress(epoch, loss, accuracy):
    return f"epoch {epoch}/{EPOCHS} loss {loss:.3f} accuracy {accuracy:.2f}"


def learned(first_loss, last_loss, accuracy):
    """Whether it was worth it: the loss fell by half and nine of ten answers are right."""
    return last_loss < first_loss / 2 and accuracy > 0.9
