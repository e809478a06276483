"""The quantities of docs/analyses/fixed_points.md, computed with gradients by torch and
whole Hessians."""

import collections
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.clustering_heads import (
    circuit_landscape,
    fixed_point_landscape,
    landscape_table,
    stability,
)
from dynamics import SparseSettings, sample_sequences
from tests.twins.differences import examples, same

TOLERANCE = 1e-7


def normalised(x):
    square = (x**2).mean(dim=-1, keepdim=True)
    # The gradient of the square root at 0 is infinite, that of x / (rms + 1e-5) is not.
    is_zero = square == 0
    rms = torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, square).sqrt())
    return x / (rms + 1e-5)


def forward(weights, tokens):
    """Sequence embeddings and logits of VC's network at sequences."""
    places = weights["position_embedding"]
    z = normalised(weights["embedding"][tokens] + places)
    attention = (z @ weights["query"] / math.sqrt(places.shape[1])).softmax(dim=1)
    xi = (attention[..., None] * z).sum(dim=1) @ weights["value"].T
    before = normalised(xi) @ weights["receptor"].T + weights["receptor_bias"]
    hidden = before * (1 + torch.erf(before / math.sqrt(2))) / 2
    zeta = xi + hidden @ weights["assembler"] + weights["transform_bias"]
    return xi, zeta @ weights["embedding"].T


class Twin:
    def __init__(self, network, s):
        self.network, self.s = network, s
        every = list(itertools.product(range(s.vocab), repeat=s.length))
        self.every = torch.tensor(every)
        sample = sample_sequences(s, np.array([0]), "train")[0]
        self.sample = torch.from_numpy(sample).long()

    def loss(self, row, tokens, decay):
        weights = self.network.unflatten(row)
        targets = tokens[:, list(self.s.counting)].sum(dim=1) % self.s.vocab
        _, o = forward(weights, tokens)
        shares = o - torch.logsumexp(o, dim=1, keepdim=True)
        whole = -shares[torch.arange(len(tokens)), targets].mean()
        return whole + decay / 2 * (row**2).sum()

    def gradient(self, row, tokens, decay):
        x = row.clone().requires_grad_()
        return torch.autograd.grad(self.loss(x, tokens, decay), x)[0]

    def hessian(self, row, decay):
        def loss(x):
            return self.loss(x, self.every, decay)

        hessian = torch.autograd.functional.hessian(loss, row)
        return (hessian + hessian.T) / 2

    def breaking(self, places):
        """Orthonormal directions, (parameter, direction), that change the position
        embeddings at some positions but not the mean of these embeddings."""
        size = sum(self.network.lengths)
        positions = self.network.unflatten(torch.arange(size).double())
        rows = positions["position_embedding"].long()
        directions = []
        for k in range(1, len(places)):
            # 1, ..., 1, -k over the first k + 1 places
            for axis in range(rows.shape[1]):
                v = torch.zeros(size, dtype=torch.float64)
                for place in places[:k]:
                    v[rows[place, axis]] = 1.0
                v[rows[places[k], axis]] = -k
                directions.append(v / v.norm())
        return torch.stack(directions, dim=1) if directions else torch.zeros(size, 0)

    def bases(self):
        counting = list(self.s.counting)
        others = [t for t in range(self.s.length) if t not in counting]
        return [self.breaking(places).double() for places in (counting, others)]

    def shares(self, row):
        """The largest order and value fraction, and the accuracy."""
        xi, o = forward(self.network.unflatten(row), self.every)
        at = dict(zip(map(tuple, self.every.tolist()), xi, strict=True))
        whole = float(((xi - xi.mean(dim=0)) ** 2).sum(dim=1).mean())
        counting, order, value = self.s.counting, [], []
        if whole == 0:
            whole = math.nan  # shares of nothing
        for t, u in itertools.combinations(counting, 2):
            total = 0.0
            for x, here in at.items():
                swapped = list(x)
                swapped[t], swapped[u] = x[u], x[t]
                total += float(((here - at[tuple(swapped)]) ** 2).sum())
            order.append(total / len(at) / (4 * whole))
        for t in set(range(self.s.length)) - set(counting):
            groups = collections.defaultdict(list)
            for x, here in at.items():
                groups[x[:t] + x[t + 1 :]].append(here)
            inside = []
            for group in map(torch.stack, groups.values()):
                inside.append(((group - group.mean(dim=0)) ** 2).sum(dim=1).mean())
            value.append(float(sum(inside)) / len(inside) / whole)
        targets = self.every[:, list(counting)].sum(dim=1) % self.s.vocab
        right = float((o.argmax(dim=1) == targets).double().mean())
        return max(order, default=math.nan), max(value, default=math.nan), right


def compare(name, actual, expected, tolerance=TOLERANCE):
    same("fixed points", actual, expected, tolerance)


def check_circuit(one, twin, row, decay):
    compare("loss", one["loss"], twin.loss(row, twin.every, 0.0))
    slope = twin.gradient(row, twin.every, decay)
    sampled = twin.gradient(row, twin.sample, decay)
    compare("gradient", one["gradient"], slope.norm())
    hessian, bases = twin.hessian(row, decay), twin.bases()
    compare("eigenvalue", one["eigenvalue"], torch.linalg.eigvalsh(hessian))
    for part, basis in zip(("order", "suffix"), bases, strict=True):
        here = one.sel(part=part)
        compare("broken", here["broken"], (basis.T @ slope).norm())
        compare("sample", here["sample_broken"], (basis.T @ sampled).norm())
        if basis.shape[1]:
            block = torch.linalg.eigvalsh(basis.T @ hessian @ basis)
            compare(part, one[f"{part}_eigenvalue"], block)
            copies = block.reshape(-1, basis.shape[1] // twin.s.dim)
            # each occurs once less than there are positions
            spread = copies.max(dim=1).values - copies.min(dim=1).values
            same("fixed points", spread, 0, 1e-6)
    _, _, right = twin.shares(row)
    compare("accuracy", one["circuit_accuracy"], right)


def check_descent(one, twin, row, calls, decay):
    """Descent from the first rows, which are displaced by a fraction of the norm."""
    rate = 1 / float(torch.linalg.eigvalsh(twin.hessian(row, decay))[-1])
    bases, rows, at = twin.bases(), calls[0].clone(), 0
    rates, times, where = [rate] * len(rows), [0.0] * len(rows), (twin.every, decay)
    kinds, lengths = one["kind"].values, one["push"].values
    for k, kind in enumerate(kinds):
        moved = rows[k] - row
        length = 0.0 if kind == "none" else lengths[k]
        compare("push", moved.norm(), length * row.norm())
        if kind in ("order", "suffix"):
            basis = bases[("order", "suffix").index(kind)]
            compare("push", (moved - basis @ (basis.T @ moved)).norm(), 0)
    for frame, step in enumerate(one["step"].values):
        while at < step:
            for k, x in enumerate(rows.clone()):
                trial = x - rates[k] * twin.gradient(x, twin.every, decay)
                before = twin.loss(x, *where)
                if twin.loss(trial, *where) <= before + 1e-12 * abs(before):
                    rows[k] = trial
                    times[k] += rates[k]
                    rates[k] = min(1.1 * rates[k], rate)
                else:
                    rates[k] /= 2
            at += 1
        here = one.isel(step=frame)
        compare("time", here["flow_time"], times)
        for k in range(len(rows)):
            there = here.isel(pushed=k)
            order, value, right = twin.shares(rows[k])
            compare("order", there["order_share"], order)
            compare("value", there["value_share"], value)
            compare("accuracy", there["accuracy"], right)
            compare("loss", there["pushed_loss"], twin.loss(rows[k], twin.every, decay))
            # from the descent that was not pushed
            moved = rows[k] - rows[kinds.tolist().index("none")]
            compare("distance", there["distance"], moved.norm())
            for name, basis in zip(("order", "suffix"), bases, strict=True):
                compare(name, there[f"{name}_apart"], (basis.T @ moved).norm())


@pytest.fixture
def seen(monkeypatch):
    """The parameters at which the analysis measures."""
    calls = {"circuits": [], "descent": []}
    local, measures = stability.local_landscape, circuit_landscape.circuit_measures

    def local_seen(network, row, tokens, sample, decay):
        calls["circuits"].append((network, row.clone(), decay))
        return local(network, row, tokens, sample, decay)

    def measures_seen(network, rows):
        calls["descent"].append(rows.clone())
        return measures(network, rows)

    monkeypatch.setattr(stability, "local_landscape", local_seen)
    monkeypatch.setattr(circuit_landscape, "circuit_measures", measures_seen)
    return calls


@settings(
    max_examples=examples(1),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([(2, 3, 2, 2), (2, 4, 2, 2), (2, 5, 3, 2), (2, 4, 3, 3)]),
    st.sampled_from([1e-3, 1e-2]),
    st.sampled_from([0.01, 0.1]),
    st.booleans(),
)
def test_fixed_points(seen, task, decay, push, other_places):
    vocab, length, sparsity, dim = task
    places = tuple(range(length - sparsity, length)) if other_places else ()
    s = SparseSettings(
        vocab=vocab,
        length=length,
        sparsity=sparsity,
        dim=dim,
        positions=places,
        hidden=8,
        data=20,
        batch=20,
    )
    for calls in seen.values():
        calls.clear()
    result = fixed_point_landscape(s, decay, (push,), steps=6)
    table = landscape_table(result)
    twin = Twin(seen["circuits"][0][0], s)
    rows = {}
    for k, (_, row, _) in enumerate(seen["circuits"]):
        one = result.isel(circuit=k)
        name = str(one["circuit"].values)
        rows[name] = row
        check_circuit(one, twin, row, decay if name == "settled" else 0.0)
        eigenvalues = one["eigenvalue"].values
        compare("row", table.loc[k, "least_eigenvalue"], eigenvalues[0])
        compare("row", table.loc[k, "largest_eigenvalue"], eigenvalues[-1])
    starts = result["start"].values.tolist()
    frames = len(seen["descent"]) // len(starts)
    for k, start in enumerate(starts):
        calls = seen["descent"][k * frames : (k + 1) * frames]
        one = result.isel(start=k)
        check_descent(
            one, twin, rows[start], calls, decay if start == "settled" else 0.0
        )
