"""Learning rates, numbers and second moments of a frame's update, and the limits of
curvature beyond which an optimizer is unstable.

Gradient descent with the learning rate lr is unstable along an eigenvector of the
Hessian H whose eigenvalue exceeds 2 / lr (Cohen et al. 2021, arXiv 2103.00065), with
momentum b 2 (1 + b) / lr. Adam is unstable if the largest eigenvalue of P^-1/2 H P^-1/2
exceeds 2 (1 + beta1) / ((1 - beta1) lr), with P = (1 - beta1^t) (sqrt(v) + eps) after t
updates of Adam and its bias-corrected second moments v (Cohen et al. 2022, arXiv
2207.14484). `dynamics.optimizers.stability_limit` has the formula for all numbers of
these optimizers; weight decay that is added to the gradient is added to H.

With limits l_i of single parameters, because learning rates or other numbers differ, an
optimizer is unstable if the largest eigenvalue of H_ij / sqrt(l_i l_j) exceeds 1: the
updates of a quadratic loss then have a real factor below -1, and otherwise none of a
magnitude above 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from analysis.linearization.curvature_operators import CurvatureOperator
from analysis.linearization.curvature_table import DECAY
from analysis.linearization.operator_spectra import largest_eigenvalue
from dynamics.branching import open_source, states_at
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import network_of
from dynamics.optimizers import (
    ADAM_PRECONDITIONER,
    Preconditioner,
    call_by_names,
    stability_limit,
    update_numbers,
)
from dynamics.recording.model_loss import RecordedModel
from dynamics.recording.quantities import (
    LEARNING_RATE,
    LEARNING_RATES,
    MOMENT_UPDATES,
    NUMBER_NAMES,
    OPTIMIZER_NUMBERS,
    SECOND_MOMENT,
    TRAINED,
)
from dynamics.settings import OptimizerSettings, RecordedSettings
from dynamics.trajectory.schema import read_settings


class StabilityLimit(NamedTuple):
    """The eigenvalues above which the updates of single parameters are unstable."""

    inverse: np.ndarray
    """The inverse of this eigenvalue for each parameter, (parameter,): 0 for one that
    is not updated, NaN if the learning rate is not known."""
    decay: np.ndarray
    """Weight decay that is added to the gradient, and so to the Hessian, (parameter,)."""

    def fraction(
        self,
        hessian: CurvatureOperator,
        value: float,
        root: np.ndarray | None,
        scale: np.ndarray | None = None,
        *,
        largest: Callable[[CurvatureOperator], float] = largest_eigenvalue,
    ) -> float:
        """The largest eigenvalue over the limit; updates are unstable above 1.

        value: the largest eigenvalue of the Hessian, multiplied on both sides by `root`
        and by `scale`, (parameter,), if they are given. `largest` computes another one
        only if the limits are not proportional to root², or for a weight decay."""
        rates = np.ones_like(self.inverse) if root is None else root**2
        moves = rates > 0
        ratios = self.inverse[moves] / rates[moves]
        decays = self.decay[moves]
        if not np.isfinite(ratios).all():
            return float(ratios.max())
        if np.ptp(ratios) <= _ROUNDING * ratios.max():
            if not decays.any():
                return value * float(ratios[0])
            if root is None and scale is None and not np.ptp(decays):
                return (value + float(decays[0])) * float(ratios[0])
        factor = np.sqrt(self.inverse) * (1.0 if scale is None else scale)
        return largest(hessian.plus_diagonal(self.decay).scaled(factor))

    def eigenvalue(self, value: float, fraction: float) -> float:
        """The largest eigenvalue of the Hessian at which updates become unstable; with
        several limits, the `value` of it over its `fraction` of the limit."""
        inverse, decay = (np.unique(item) for item in self)
        if len(inverse) == len(decay) == 1:
            return 1 / float(inverse[0]) - float(decay[0]) if inverse[0] else np.inf
        return value / fraction if fraction else np.inf


_ROUNDING = 1e-12
"""Relative difference of limits that are equal."""


class StabilityRates(NamedTuple):
    """The learning rates of a frame, and the limits of stability."""

    rate: float
    """The learning rate of the next update, lr; NaN if it is not known. Of a recorded
    model it is that of the first parameter group, or the largest if that is 0."""
    root: np.ndarray | None
    """Square root of each parameter's rate over this rate, (parameter,), with which H is
    multiplied on both sides; None if all are equal."""
    plain: StabilityLimit
    """The optimizer's limit of the sharpness; of one with another limit, such as Adam,
    that of gradient descent."""
    preconditioned: StabilityLimit
    """The optimizer's limit of the preconditioned sharpness."""


def stability_rates(model: RecordedModel, run: int, frame: int) -> StabilityRates:
    """The learning rates and limits of the update that follows a frame."""
    trajectory = model.trajectory
    settings: Any = read_settings(trajectory)
    if isinstance(settings, OptimizerSettings):
        step = int(trajectory["step"][frame])
        return network_rates(settings, model.shapes, model.lengths, step)
    named = getattr(settings, "optimizer", "")
    rate = float(settings.time_step) if named else np.nan
    if LEARNING_RATE in trajectory:
        rate = float(trajectory[LEARNING_RATE].isel(run=run, step=frame))
    rates: Any = _by_parameter(model, LEARNING_RATES, run, frame)
    if rates is None:
        rates = np.full(model.size, rate)
    numbers = _recorded_numbers(model, run, frame)
    beta1 = numbers["beta1"]
    beta1 = np.where(np.isnan(beta1), getattr(settings, "beta1", 0.0), beta1)
    decay = np.nan_to_num(numbers["weight_decay"])
    plain = stability_limit(
        rates,
        np.nan_to_num(numbers["momentum"]),
        nesterov=numbers["nesterov"] == 1,
        dampening=np.nan_to_num(numbers["dampening"]),
    )
    preconditioned = stability_limit(
        rates,
        beta1,
        dampening=beta1,
        decoupled_decay=np.nan_to_num(numbers["decoupled_weight_decay"]),
    )
    of_sgd = np.where(np.isnan(numbers["momentum"]), 0.0, decay)
    return _with_root(rate, rates, (plain, of_sgd), (preconditioned, decay))


def network_rates(
    settings: Any, names: Iterable[str], lengths: Sequence[int], step: int
) -> StabilityRates:
    """The learning rates and limits of the update that follows `step` updates of a
    network of this package, whose variables have these names and lengths."""
    factor = settings.learning_rate_factor(step)
    optimizer = settings.optimizer_value
    variables = [
        {
            **settings.hyperparameters,
            "lr": factor * settings.learning_rate_of(name),
            "weight_decay": settings.weight_decay_of(name),
        }
        for name in names
    ]

    def limits(limit: Callable[..., float]) -> np.ndarray:
        values = [
            call_by_names(limit, numbers) if numbers["lr"] else np.inf
            for numbers in variables
        ]
        return np.repeat(values, lengths)

    rates, decays = (
        np.repeat([numbers[name] for numbers in variables], lengths)
        for name in ("lr", "weight_decay")
    )
    added = decays if optimizer.decay_in_gradient else np.zeros_like(decays)
    plain = (limits(stability_limit_of_descent), np.zeros_like(decays))
    if optimizer.limit is not None:
        plain = (limits(optimizer.limit), added)
    preconditioner = optimizer.preconditioner or ADAM_PRECONDITIONER
    preconditioned = (limits(preconditioner.limit), added)
    return _with_root(settings.lr * factor, rates, plain, preconditioned)


def stability_limit_of_descent(lr: float) -> float:
    """The limit of gradient descent without momentum."""
    return stability_limit(lr)


def _with_root(
    rate: float,
    rates: np.ndarray,
    plain: tuple[np.ndarray, np.ndarray],
    preconditioned: tuple[np.ndarray, np.ndarray],
) -> StabilityRates:
    """lr, the rates of parameters, and the limits and decays of both kinds."""
    root = None
    if len(np.unique(rates)) > 1:
        rate = rate if rate > 0 else float(rates.max())
        root = np.sqrt(rates / rate)
    with np.errstate(divide="ignore"):
        both = (
            StabilityLimit(1 / one, decay) for one, decay in (plain, preconditioned)
        )
    return StabilityRates(rate, root, *both)


def _recorded_numbers(
    model: RecordedModel, run: int, frame: int
) -> dict[str, np.ndarray]:
    """The numbers of the optimizer of each parameter by name, (parameter,); NaN if they
    are not recorded."""
    trajectory = model.trajectory
    if OPTIMIZER_NUMBERS not in trajectory:
        return {name: np.full(model.size, np.nan) for name in NUMBER_NAMES}
    values = trajectory[OPTIMIZER_NUMBERS].isel(run=run, step=frame).values
    by_name = dict(zip(json.loads(trajectory.attrs[TRAINED]), values, strict=True))
    rows = np.repeat([by_name[name] for name in model.shapes], model.lengths, axis=0)
    names = json.loads(trajectory.attrs[OPTIMIZER_NUMBERS])
    return dict(zip(names, rows.T, strict=True))


def limit_words(trajectory: xr.Dataset) -> dict[str, str]:
    """Attributes of results that say which limit eigenvalues are compared with:
    `limit_formula`, that of the sharpness, and `limit_note`, sentences."""
    settings: Any = read_settings(trajectory)
    if isinstance(settings, OptimizerSettings):
        return _words_of_network(settings)
    if OPTIMIZER_NUMBERS not in trajectory:
        return _words(
            "2/lr",
            "The file does not have momentum and weight decay: limits are those without"
            " them, 2/lr is that of gradient descent.",
        )
    table = trajectory[OPTIMIZER_NUMBERS].values
    moves = np.ones(table.shape[:-1], bool)
    if LEARNING_RATES in trajectory:
        rates = trajectory[LEARNING_RATES].values
        moves = np.broadcast_to((rates > 0).any(axis=(0, 1)), moves.shape)
    names = json.loads(trajectory.attrs[OPTIMIZER_NUMBERS])
    numbers = dict(zip(names, table[moves].T, strict=True))
    words = _words_of_numbers(numbers, getattr(settings, "optimizer", ""))
    moments = any(str(name).startswith(SECOND_MOMENT) for name in trajectory)
    if moments and np.isnan(numbers["beta1"]).any():
        words["limit_note"] += (
            " The limit of the preconditioned eigenvalue is that of Adam, and for"
            f" {getattr(settings, 'optimizer', '') or 'the optimizer'} only a scale."
        )
    return words


def _words_of_network(settings: Any) -> dict[str, str]:
    optimizer = settings.optimizer_value
    name = optimizer.name
    decays = np.unique(
        [settings.weight_decay_of(item) for item in settings.weight_names]
    )
    none = np.full(len(decays), np.nan)
    numbers = dict.fromkeys(NUMBER_NAMES, none)
    added = optimizer.decay_in_gradient
    numbers["weight_decay"] = decays if added else 0 * decays
    if optimizer.limit is stability_limit:
        numbers["momentum"] = np.full(len(decays), settings.momentum)
    elif optimizer.limit is not None:
        note = f"The limit of the sharpness is that of {name}."
        return _words("its limit", note, numbers["weight_decay"])
    elif name in ("adam", "adamw"):
        numbers["beta1"] = np.full(len(decays), settings.beta1)
        numbers["decoupled_weight_decay"] = 0 * decays if added else decays
    return _words_of_numbers(numbers, name)


def _words_of_numbers(numbers: Mapping[str, np.ndarray], name: str) -> dict[str, str]:
    """The attributes of `limit_words` for the numbers of an optimizer of this name, by
    their names, (value,) each; NaN for a number that the optimizer does not have."""
    known = ~np.isnan(numbers["momentum"])
    of_adam = ~np.isnan(numbers["beta1"])
    sentences = []
    formula, decay = "2/lr", np.zeros(1)
    if known.any():
        formula, sentence = _descent_words(
            {key: np.nan_to_num(values[known]) for key, values in numbers.items()}
        )
        sentences.append(sentence)
        decay = numbers["weight_decay"][known]
    if not known.all():
        of = name or "the optimizer"
        if known.any():
            other = "Adam" if of_adam[~known].all() else "other optimizers"
            of = f"the parameters of {other}"
        sentences.append(
            f"2/lr is the limit of gradient descent, and for {of} only a scale."
        )
    if of_adam.any():
        formula_of_adam = "2(1+β₁)/((1−β₁)lr)"
        decoupled = numbers["decoupled_weight_decay"][of_adam]
        values = f"β₁ = {_range(numbers['beta1'][of_adam])}"
        if decoupled.any():
            formula_of_adam = "(2−lr w)(1+β₁)/((1−β₁)lr)"
            values += f" and weight decay w = {_range(decoupled)}"
        sentences.append(
            f"The limit of the preconditioned eigenvalue is {formula_of_adam}, with"
            f" {values}."
        )
        coupled = numbers["weight_decay"][of_adam]
        if coupled.any():
            sentences.append(
                f"Before preconditioning, the weight decay {_range(coupled)} is added to"
                " the Hessian."
            )
    return _words(formula, " ".join(sentences), decay)


def _descent_words(numbers: Mapping[str, np.ndarray]) -> tuple[str, str]:
    """The formula of the limit of gradient descent, and a sentence about it."""
    momentum, dampening = numbers["momentum"], numbers["dampening"]
    nesterov = numbers["nesterov"][momentum > 0] > 0
    if not momentum.any():
        return "2/lr", "2/lr is the limit of gradient descent."
    kind, above, below = "momentum", "2(1+β)", "lr"
    values = f"β = {_range(momentum)}"
    if nesterov.all():
        kind, below = "Nesterov's momentum", "((1+2β)lr)"
    elif nesterov.any():
        kind = (
            "momentum, of some parameters Nesterov's with a limit (1+2β) times lower,"
        )
    if dampening[momentum > 0].any():
        below = "((1−d)lr)"
        values += f" and dampening d = {_range(dampening[momentum > 0])}"
    formula = f"{above}/{below}"
    return formula, f"{formula} is the limit of gradient descent with {kind} {values}."


def _words(
    formula: str, note: str, decay: np.ndarray | Sequence[float] = ()
) -> dict[str, str]:
    decay = np.asarray(decay)
    if decay.any():
        formula += DECAY
        note += f" The weight decay w = {_range(decay)} is added to the Hessian."
    return {"limit_formula": formula, "limit_note": note}


def _range(values: np.ndarray) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _preconditioner(settings: Any) -> Preconditioner:
    """The preconditioner of the optimizer; that of Adam for a recorded model."""
    value = getattr(settings, "optimizer_value", None)
    return getattr(value, "preconditioner", None) or ADAM_PRECONDITIONER


def _hyperparameters(settings: Any) -> dict[str, float]:
    """The decay rates and epsilon of settings; 0 for a recorded model without Adam."""
    names = ("beta1", "beta2", "momentum", "eps")
    return {name: getattr(settings, name, 0.0) for name in names}


def relative_learning_rates(network: ConstantAttention | ClusteringHead) -> np.ndarray:
    """The learning rate of each parameter over lr: (parameter,)."""
    settings = network.settings
    rates = [
        settings.learning_rate_of(name) / settings.lr for name in network.variables
    ]
    return np.repeat(rates, network.lengths)


def _by_parameter(
    model: RecordedModel, name: str, run: int, frame: int
) -> np.ndarray | None:
    """A variable that has one number for each trained tensor, or for all, as a number
    for each parameter: (parameter,); None if it is not recorded."""
    if name not in model.trajectory.variables:
        return None
    values = model.trajectory[name].isel(step=frame)
    if not values.ndim:
        return np.full(model.size, float(values))
    names = json.loads(model.trajectory.attrs[TRAINED])
    by_name = dict(zip(names, values.isel(run=run).values.tolist(), strict=True))
    return np.repeat([float(by_name[name]) for name in model.shapes], model.lengths)


def lacks_moments(model: RecordedModel) -> bool:
    """Whether a file lacks second moments of gradients that the optimizer may have.
    Gradient descent has none, with or without momentum."""
    if model.has_moments or OPTIMIZER_NUMBERS not in model.trajectory:
        return not model.has_moments
    names = json.loads(model.trajectory.attrs[OPTIMIZER_NUMBERS])
    momentum = model.trajectory[OPTIMIZER_NUMBERS].values[..., names.index("momentum")]
    return bool(np.isnan(momentum).all())


def preconditioner_scale(
    model: RecordedModel, run: int, frame: int
) -> np.ndarray | None:
    """The inverse root of the optimizer's preconditioner, (parameter,), 0 for parameters
    without an update; None without second moments and before the first update.

    The number of updates is that of the moments, which is not the step of a branch or of
    a recording of a model that was trained before; only recordings that do not have it
    are taken to begin with the first update."""
    if not model.has_moments:
        return None
    updates = _by_parameter(model, MOMENT_UPDATES, run, frame)
    if updates is None:
        updates = np.full(model.size, float(model.trajectory["step"][frame]))
    if not updates.any():
        return None
    settings = read_settings(model.trajectory)
    numbers = update_numbers(_hyperparameters(settings), updates)
    moment = model.row(run, frame, SECOND_MOMENT).cpu().double().numpy()
    numbers["second_moment"] = moment
    with np.errstate(divide="ignore"):
        scale = 1 / np.sqrt(call_by_names(_preconditioner(settings).scale, numbers))
    return np.where(updates > 0, scale, 0.0)


def with_moments(trajectory: xr.Dataset, frames: Sequence[int]) -> xr.Dataset:
    """The frames of a trajectory with the second moments of its optimizer without bias, as
    recordings have those of Adam, and the number of updates that they have received.

    Those of a network of this package come from its exact states, which are computed
    again; other trajectories stay as they are. frames: increasing indices along step.
    Raises as `dynamics.replay` does."""
    selected = trajectory.isel(step=list(frames))
    if trajectory.attrs["system"] == RecordedSettings.system:
        return selected
    network: Any = network_of(trajectory)
    optimizer = network.settings.optimizer_value
    if optimizer.preconditioner is None:
        return selected
    rows = []
    updates = []
    steps = selected["step"].values.tolist()
    seeds = trajectory["seed"].values
    states: Any = states_at(open_source(trajectory), seeds, steps, [])
    for state in states:
        zeros = dict.fromkeys(optimizer.moments, np.zeros_like(state.weights))
        hyperparameters = network.settings.hyperparameters
        numbers = update_numbers(hyperparameters, max(1, state.updates))
        known = {**zeros, **state.moments, **numbers}
        updates.append(state.updates)
        rows.append(call_by_names(optimizer.preconditioner.second_moment, known))
    flat = np.split(np.stack(rows, axis=1), np.cumsum(network.lengths)[:-1], axis=-1)
    variables = {}
    for (name, dims), values in zip(network.variables.items(), flat, strict=True):
        shape = (*values.shape[:2], *network.shapes[name])
        moments = values.reshape(shape)
        variables[f"{SECOND_MOMENT}{name}"] = (("run", "step", *dims), moments)
    counts = {MOMENT_UPDATES: ("step", np.array(updates))}
    return selected.assign(variables).assign_coords(counts)
