"""Cosines and correlations in plain NumPy; NaN where they are undefined."""

import math

import numpy as np


def cosine(a, b):
    size = math.sqrt((a * a).sum()) * math.sqrt((b * b).sum())
    return (a * b).sum() / size if size > 0 else math.nan


def pearson(x, y):
    a, b = np.asarray(x, float), np.asarray(y, float)
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt((a @ a) * (b @ b))
    return (a @ b) / size if size > 1e-12 else math.nan
