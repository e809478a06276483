"""docs/analyses/model-spectrum.md with whole Hessians."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.linearization import SpectrumOptions, model_curvature, tabulate_model
from dynamics import ModelLoss, open_trajectory, record
from tests.twins import intervals
from tests.twins.differences import examples, row_has, same

TOKENS, WIDTH = 4, 2
NAMES = ("embed.weight", "length", "direction", "shift", "bias")


class Small(torch.nn.Module):
    """A table that is used at both ends, a layer with normalised weights, and a shift
    that may be frozen."""

    def __init__(self, fixed):
        super().__init__()
        self.embed = torch.nn.Embedding(TOKENS, WIDTH)
        layer = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.mix = torch.nn.utils.parametrizations.weight_norm(layer)
        self.shift = torch.nn.Parameter(torch.randn(WIDTH))
        self.out = torch.nn.Linear(WIDTH, TOKENS)
        self.out.weight = self.embed.weight
        self.shift.requires_grad_(fixed != "frozen")

    def forward(self, tokens):
        return self.out(torch.tanh(self.mix(self.embed(tokens)) + self.shift))

    def by_name(self):
        normalised = self.mix.parametrizations.weight
        tensors = (
            self.embed.weight,
            normalised.original0,
            normalised.original1,
            self.shift,
            self.out.bias,
        )
        return dict(zip(NAMES, tensors, strict=True))


def plain_loss(values, batches):
    """The mean over batches of their mean cross-entropies."""
    table, length, direction, shift, bias = (values[name] for name in NAMES)
    mix = length * direction / (direction**2).sum(dim=1, keepdim=True).sqrt()
    whole = 0.0
    for tokens, targets in batches:
        o = torch.tanh(table[tokens] @ mix.T + shift) @ table.T + bias
        shares = o - o.exp().sum(dim=1, keepdim=True).log()
        whole = whole - shares[torch.arange(len(targets)), targets].mean()
    return whole / len(batches)


def optimizer_of(kind, model, fixed, rates):
    tensors = {name: v for name, v in model.by_name().items() if v.requires_grad}
    if fixed == "left out":
        del tensors["shift"]
    groups = [{"params": [tensors.pop("embed.weight")], "lr": rates[0]}]
    groups.append({"params": list(tensors.values()), "lr": rates[1]})
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=1.0, momentum=0.5)
    rule = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return rule(groups, lr=1.0, betas=(0.8, 0.95), eps=1e-6)


class Twin:
    """What a training has at a frame, and the Hessian there."""

    def __init__(self, model, optimizer):
        self.values = {k: v.detach().double() for k, v in model.by_name().items()}
        rates = {id(p): g["lr"] for g in optimizer.param_groups for p in g["params"]}
        tensors = {k: v for k, v in model.by_name().items() if id(v) in rates}
        self.names = list(tensors)
        sizes = [v.numel() for v in tensors.values()]
        self.rates = np.repeat([rates[id(v)] for v in tensors.values()], sizes)
        self.beta = optimizer.param_groups[0].get("betas")
        self.scale = None
        states = [optimizer.state.get(v, {}) for v in tensors.values()]
        if self.beta and all("step" in state for state in states):
            one, two = self.beta
            parts = []
            for state in states:
                t = float(state["step"])
                squares = state["exp_avg_sq"].double().ravel() / (1 - two**t)
                parts.append((1 - one**t) * (squares.sqrt() + 1e-6))
            self.scale = torch.cat(parts).numpy()

    def flat(self):
        return torch.cat([self.values[name].ravel() for name in self.names])

    def loss_at(self, vector, batches):
        values, at = dict(self.values), 0
        for name in self.names:
            size = values[name].numel()
            values[name] = vector[at : at + size].reshape(values[name].shape)
            at += size
        return plain_loss(values, batches)

    def derivatives(self, batches):
        x = self.flat().requires_grad_()
        loss = self.loss_at(x, batches)
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        rows = [torch.autograd.grad(v, x, retain_graph=True)[0] for v in gradient]
        hessian = torch.stack(rows).numpy()
        return loss.item(), gradient.detach().numpy(), (hessian + hessian.T) / 2


def train(path, kind, fixed, rates, before, updates, seed, batches):
    """Record a training; its state at each frame."""
    torch.manual_seed(seed)
    model = Small(fixed)
    optimizer = optimizer_of(kind, model, fixed, rates)
    twins = []

    def update():
        optimizer.zero_grad()
        tokens, targets = batches[0]
        torch.nn.functional.cross_entropy(model(tokens), targets).backward()
        optimizer.step()

    for _ in range(before):
        update()
    options = {"weights": True, "moments": kind != "sgd", "overwrite": True}
    with record(model, optimizer, path, seed=seed, **options) as recording:
        twins.append(Twin(model, optimizer))
        for _ in range(updates):
            update()
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
            recording.step()
            twins.append(Twin(model, optimizer))
    return model, twins


def scaled(hessian, scale):
    root = 1 / np.sqrt(scale)
    return np.linalg.eigvalsh(root[:, None] * hessian * root)[-1]


def fraction_within(vectors, movement):
    size = movement @ movement
    return ((vectors.T @ movement) ** 2).sum() / size if size > 0 else math.nan


def check_rows(result):
    for k, row in enumerate(tabulate_model(result).to_dict("records")):
        for name in ("sharpness", "lowest", "relative_sharpness"):
            values = result[name].values[:, k]
            row_has("model spectrum", row, name, intervals.median(values))


def test_spectrum_of_recorded_models(tmp_path):
    @settings(max_examples=examples(2))
    @given(
        st.sampled_from(["adam", "adamw", "sgd"]),
        st.sampled_from(["", "frozen", "left out"]),
        st.sampled_from([(0.1, 0.1), (0.02, 0.3)]),
        st.integers(0, 2),
        st.sampled_from([1, 3, 40]),
        st.integers(0, 999),
    )
    def check(kind, fixed, rates, before, eigenvalues, seed):
        generator = np.random.default_rng(seed)
        batches = [
            tuple(torch.from_numpy(generator.integers(0, TOKENS, (2, size))))
            for size in generator.integers(1, 6, 2)
        ]
        path = str(tmp_path / "small.nc")
        model, twins = train(path, kind, fixed, rates, before, 2, seed, batches)

        def loss(parameters, batch):
            logits = torch.func.functional_call(model, parameters, (batch[0],))
            return torch.nn.functional.cross_entropy(logits, batch[1])

        with open_trajectory(path) as opened:
            trajectory = opened.load()
        options = SpectrumOptions(eigenvalues=eigenvalues, tolerance=1e-9)
        given_loss = ModelLoss(loss, lambda: batches)
        result = model_curvature(trajectory, given_loss, [0, 1, 2], options, quiet=True)
        check_rows(result)
        for t, twin in enumerate(twins):
            one = result.isel(run=0, step=t)
            value, gradient, hessian = twin.derivatives(batches)
            values, vectors = np.linalg.eigh(hessian)
            same("model spectrum", one["loss"], value, 1e-6)
            same("model spectrum", one["gradient_size"], np.linalg.norm(gradient), 1e-6)
            same("model spectrum", one["sharpness"], values[-1], 1e-6)
            same("model spectrum", one["lowest"], values[0], 1e-6)
            wanted = values
            if 2 * eigenvalues < len(values):
                wanted = np.concatenate([values[:eigenvalues], values[-eigenvalues:]])
            found = one["eigenvalue"].values
            same("model spectrum", found[np.isfinite(found)], wanted, 1e-6)
            trace, error = np.trace(hessian), float(one["trace_error"])
            assert abs(float(one["trace"]) - trace) <= 6 * error + 1e-9
            rate = scaled(hessian, 1 / twin.rates) / (3 if kind == "sgd" else 2)
            same("model spectrum", one["relative_sharpness"], rate, 1e-6)
            preconditioned = relative = math.nan
            if twin.scale is not None:
                # rates relative to that of the first group
                first = twin.rates[0]
                preconditioned = scaled(hessian, twin.scale * first / twin.rates)
                beta = twin.beta[0]
                limit = 2 * (1 + beta) / (1 - beta)
                shrunk = 1 - twin.rates * 0.01 / 2 if kind == "adamw" else 1.0
                relative = scaled(hessian, twin.scale * shrunk / twin.rates) / limit
            same(
                "model spectrum", one["preconditioned_sharpness"], preconditioned, 1e-6
            )
            same("model spectrum", one["relative_preconditioned"], relative, 1e-6)
            movement = np.full(len(values), math.nan)
            if t < 2:
                movement = (twins[t + 1].flat() - twin.flat()).numpy()
            leading = min(eigenvalues, len(values))
            if leading == len(values) or values[-leading] - values[-leading - 1] > 1e-3:
                within = [fraction_within(vectors[:, -leading:], gradient)]
                within.append(fraction_within(vectors[:, -leading:], movement))
                names = ("gradient_fraction", "update_fraction")
                same("model spectrum", [one[name] for name in names], within, 1e-5)

    check()
