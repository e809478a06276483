"""What is recorded of a model: parameters by name, parts of them, and functions of the
model."""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from dynamics.provenance import METRIC_VARIABLES
from dynamics.recording.moments import second_moment
from dynamics.settings import SettingsError
from dynamics.system_checks import RESERVED_NAMES
from dynamics.trajectory.schema import VARIABLES


@dataclasses.dataclass(frozen=True)
class ParameterView:
    """A parameter or buffer of a model by its name, optionally transposed, of which
    some rows are selected.

    Parameters
    ----------
    name : str
        Name as in ``model.state_dict()``, for example ``"embed.W_E"``.
    transpose : bool
        Swap the last two axes, for embeddings that are stored as (axis, token).
    rows : int, optional
        Select the first `rows` rows, after the transposition: the number tokens of a
        larger vocabulary.

    Examples
    --------
    >>> import torch
    >>> from dynamics import ParameterView
    >>> model = torch.nn.Linear(5, 3)
    >>> ParameterView("weight", transpose=True, rows=4).of(model.state_dict()).shape
    torch.Size([4, 3])
    """

    name: str
    transpose: bool = False
    rows: int | None = None

    def of(self, state: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The tensor, from the state dict of a model. Raises SettingsError if it is not
        there or does not fit."""
        tensor = state.get(self.name)
        if not isinstance(tensor, torch.Tensor):
            raise SettingsError(
                "name of a parameter", self.name, near_names(self.name, state)
            )
        if self.transpose:
            if tensor.ndim < 2:
                raise SettingsError(
                    f"transpose of {self.name}",
                    describe(tensor),
                    "a tensor with at least two axes",
                )
            tensor = tensor.transpose(-1, -2)
        if self.rows is not None:
            if not 1 <= self.rows <= (tensor.shape[0] if tensor.ndim else 0):
                raise SettingsError(
                    f"rows of {self.name}",
                    self.rows,
                    f"1 to {tensor.shape[0] if tensor.ndim else 0}",
                )
            tensor = tensor[: self.rows]
        return tensor


LEARNING_RATES, MOMENT_UPDATES = "learning_rates", "moment_updates"
"""Names of the learning rate of each trained parameter, and of the number of updates that
its second moment has received, (run, step, parameter)."""

TRAINED = "trained_parameters"
"""Attribute of a trajectory: the names of the trained parameters in the order of these
variables, as JSON."""

PARAMETER, SECOND_MOMENT, BUFFER = "parameter.", "second_moment.", "buffer."
"""What the names of recorded parameters, of their second moments in Adam, and of
buffers begin with."""

TIED = "tied_parameters"
"""Attribute of a trajectory: the name of the recorded parameter by each further name that
it has in the state dict, as JSON."""

Quantity = str | ParameterView | Callable[[Any], torch.Tensor]
"""A parameter by its name, a view of one, or a function of the model that returns a
tensor."""


def near_names(name: str, state: Collection[str]) -> str:
    """The names of a state dict that resemble a name, or all if there are few, as words
    of an error message."""
    names = list(state)
    near = difflib.get_close_matches(name, names, 3, 0.4)
    near += [
        other
        for other in names
        if other not in near and name.rpartition(".")[2] in other
    ][: 3 - len(near)]
    if near:
        return "a name of the model, for example " + ", ".join(near)
    return (
        "a name of the model: "
        + ", ".join(names[:8])
        + (" ..." if len(names) > 8 else "")
    )


@contextlib.contextmanager
def near_missing_names(state: Collection[str]) -> Iterator[None]:
    """Add the names that resemble a missing one of a state dict to a KeyError."""
    try:
        yield
    except KeyError as error:
        name = error.args[0] if error.args else None
        if isinstance(name, str) and name not in state:
            error.args = (f"{name}, expected is {near_names(name, state)}",)
        raise


def tied_names(state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """The further names of tensors that a state dict contains several times, such as an
    embedding that is also the last layer, with the first name of each.

    >>> table = torch.ones(3, 2)
    >>> tied_names({"embed": table, "bias": torch.zeros(3), "unembed": table})
    {'unembed': 'embed'}
    """
    first: dict[tuple, str] = {}
    result = {}
    for name, tensor in state.items():
        if not tensor.numel():
            continue
        memory = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        place = (*memory, tensor.dtype, tuple(tensor.shape), tensor.stride())
        if first.setdefault(place, name) != name:
            result[name] = first[place]
    return result


def with_tied(
    tensors: Mapping[str, torch.Tensor], attributes: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The tensors by all their names: a trajectory stores a tensor that has several
    names once, and lists the other names in an attribute (`TIED`)."""
    names = json.loads(attributes.get(TIED, "{}"))
    tied = {name: tensors[first] for name, first in names.items() if first in tensors}
    return {**tensors, **tied}


def check_initialised(model: torch.nn.Module) -> None:
    """Raise SettingsError if the model has lazy parameters or buffers, whose shapes are
    not known yet."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            allowed = (
                "a model whose lazy modules have been initialised by a forward pass"
                " before record"
            )
            raise SettingsError("model", f"{name} without a shape", allowed)


def check_residues(modulus: int, embedding: Quantity | None, rows: int) -> None:
    """Raise SettingsError if a modulus is given, but no embedding with a row for each
    number modulo it."""
    if modulus and embedding is None:
        raise SettingsError(
            "modulus",
            f"{modulus} without embedding",
            "a modulus with the embedding of its numbers",
        )
    if modulus and rows != modulus:
        allowed = "one row for each number modulo N"
        if rows > modulus and not callable(embedding):
            view = ParameterView(embedding) if isinstance(embedding, str) else embedding
            flip = ", transpose=True" if view is not None and view.transpose else ""
            how = (
                f'dynamics.ParameterView("{view.name if view else ""}"{flip},'
                f" rows={modulus})"
            )
            allowed += (
                f"; {how} selects the first {modulus} rows, as does --tokens {modulus}"
                " of sims.collect"
            )
        raise SettingsError("embedding", f"{rows} rows for modulus={modulus}", allowed)


def state_signature(state: Mapping[str, Any]) -> str:
    """Digest of the names, shapes and types of the tensors of a state dict."""
    lines = [
        f"{name}{tuple(tensor.shape)}{tensor.dtype}"
        for name, tensor in state.items()
        if torch.is_tensor(tensor)
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def describe(values: Any) -> str:
    """The type and shape of a value, as words of an error message."""
    return (
        f"a tensor of shape {tuple(values.shape)}"
        if isinstance(values, torch.Tensor)
        else type(values).__name__
    )


def read_quantities(
    quantities: Mapping[str, Quantity], model: Any
) -> dict[str, torch.Tensor]:
    """The tensors of quantities, detached. Raises SettingsError."""
    state = model.state_dict()
    with torch.no_grad():
        return {
            name: _read_quantity(quantity, model, state)
            for name, quantity in quantities.items()
        }


def _read_quantity(
    quantity: Quantity, model: Any, state: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    if callable(quantity):
        return torch.as_tensor(quantity(model)).detach()
    return (
        (ParameterView(quantity) if isinstance(quantity, str) else quantity)
        .of(state)
        .detach()
    )


def checked_shape(
    name: str, quantity: Quantity, model: torch.nn.Module
) -> tuple[int, ...]:
    """The shape of a quantity. Raises SettingsError, which names the variable."""
    if not isinstance(quantity, str | ParameterView) and (
        torch.is_tensor(quantity) or not callable(quantity)
    ):
        allowed = (
            "the name of a parameter, a dynamics.ParameterView, or a function of the"
            " model that returns a tensor"
        )
        raise SettingsError(name, describe(quantity), allowed)
    try:
        tensor = read_quantities({name: quantity}, model)[name]
    except SettingsError as error:
        raise SettingsError(
            f"{name} ({error.field})", error.found, error.allowed
        ) from None
    except Exception as error:  # of the user's function
        raise SettingsError(
            name,
            f"a function that raises {type(error).__name__}: {error}",
            "one of the model",
        ) from None
    if tensor.is_complex():
        allowed = "real values, for example by torch.view_as_real"
        raise SettingsError(name, f"values of {tensor.dtype}", allowed)
    if not torch.isfinite(tensor).all():
        raise SettingsError(
            name, "a value that is not finite", "finite values at the beginning"
        )
    variable_dims(name, tuple(tensor.shape))
    return tuple(tensor.shape)


@dataclasses.dataclass(frozen=True)
class LearningRate:
    """A recorded quantity: the learning rate of the first parameter group, float64."""

    optimizer: torch.optim.Optimizer

    def __call__(self, model: torch.nn.Module | None = None) -> torch.Tensor:
        """The learning rate that the optimizer has now."""
        rate = self.optimizer.param_groups[0]["lr"]
        return torch.as_tensor(rate, dtype=torch.float64, device="cpu")


@dataclasses.dataclass(frozen=True)
class LearningRates:
    """A recorded quantity: the learning rates of some parameters, (parameter,) float64;
    0 for one that is in no group of the optimizers."""

    optimizers: Sequence[torch.optim.Optimizer]
    parameters: Sequence[torch.nn.Parameter]

    def __call__(self, model: torch.nn.Module | None = None) -> torch.Tensor:
        """The learning rates that the optimizers have now."""
        rates = {
            id(parameter): float(group["lr"])
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        values = [rates.get(id(parameter), 0.0) for parameter in self.parameters]
        return torch.tensor(values, dtype=torch.float64)


@dataclasses.dataclass(frozen=True)
class MomentUpdates:
    """A recorded quantity: the numbers of updates that the second moments of some
    parameters have received, (parameter,) float64."""

    optimizers: Sequence[torch.optim.Optimizer]
    parameters: Sequence[torch.nn.Parameter]

    def __call__(self, model: torch.nn.Module | None = None) -> torch.Tensor:
        """The numbers until now."""
        counts = [
            sum(
                float(one.state.get(parameter, {}).get("step", 0))
                for one in self.optimizers
            )
            for parameter in self.parameters
        ]
        return torch.tensor(counts, dtype=torch.float64)


ParameterGroups = Mapping[str, Sequence[torch.nn.Parameter]]
"""The trained parameters of each layer."""


def _trained_parameters(
    model: torch.nn.Module, groups: ParameterGroups
) -> dict[str, torch.nn.Parameter]:
    """The parameters of the optimizers that require gradients, by their names, layer by
    layer."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimized = itertools.chain.from_iterable(groups.values())
    return {
        names[id(parameter)]: parameter
        for parameter in optimized
        if parameter.requires_grad
    }


def recorded_weights(
    model: torch.nn.Module, groups: ParameterGroups
) -> dict[str, Quantity]:
    """The trained parameters and what else the model computes with, by the names of
    their variables. Parameters that are not trained are recorded as buffers; buffers
    that are not floating-point or not finite, or not in the state dict, are left out.
    Raises SettingsError for complex parameters."""
    state, trained = model.state_dict(), _trained_parameters(model, groups)
    for name, parameter in trained.items():
        if parameter.is_complex():
            allowed = "real parameters; variables= can record torch.view_as_real"
            raise SettingsError("weights", f"{name} of {parameter.dtype}", allowed)
    result: dict[str, Quantity] = {f"{PARAMETER}{name}": name for name in trained}
    others = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name not in trained
    }
    for name, tensor in (others | dict(model.named_buffers())).items():
        floating = name in state and tensor.is_floating_point()
        if floating and tensor.isfinite().all():
            result[f"{BUFFER}{name}"] = name
    return result


def recorded_moments(
    model: torch.nn.Module,
    groups: ParameterGroups,
    optimizers: Sequence[torch.optim.Optimizer],
) -> dict[str, Quantity]:
    """The second moments of the trained parameters, by the names of their variables."""
    owner = {
        id(parameter): (optimizer, index)
        for optimizer in optimizers
        for index, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }
    return {
        f"{SECOND_MOMENT}{name}": functools.partial(
            second_moment, *owner[id(parameter)], parameter
        )
        for name, parameter in _trained_parameters(model, groups).items()
    }


def recorded_rates_and_updates(
    model: torch.nn.Module,
    groups: ParameterGroups,
    optimizers: Sequence[torch.optim.Optimizer],
    moments: bool,
) -> tuple[dict[str, Quantity], dict[str, str]]:
    """What curvature needs of the state of the optimizers besides the second moments:
    the learning rate of each trained parameter, if the optimizers have several groups,
    and with moments the number of their updates; and the attribute (`TRAINED`) that
    names the parameters."""
    trained = _trained_parameters(model, groups)
    parameters = tuple(trained.values())
    result: dict[str, Quantity] = {}
    if sum(len(optimizer.param_groups) for optimizer in optimizers) > 1:
        result[LEARNING_RATES] = LearningRates(optimizers, parameters)
    if moments:
        result[MOMENT_UPDATES] = MomentUpdates(optimizers, parameters)
    return result, {TRAINED: json.dumps(list(trained))} if result else {}


def as_array(values: torch.Tensor) -> np.ndarray:
    """A copy of a tensor as an array: float64 stays, other floating-point types become
    float32."""
    if values.is_floating_point() and values.dtype != torch.float64:
        values = values.float()
    return np.array(values.detach().cpu().numpy())


def variable_dims(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """The dimensions, after run and step, of a recorded variable. Raises
    SettingsError."""
    if name in (*RESERVED_NAMES, *METRIC_VARIABLES, "layer", "split"):
        raise SettingsError(
            "name of a variable", name, "a name that the format does not use otherwise"
        )
    if not name or "/" in name:
        raise SettingsError("name of a variable", repr(name), "a name without /")
    variable = VARIABLES.get(name)
    if variable is None:
        return tuple(f"{name}_{axis}" for axis in range(len(shape)))
    dims = variable.dims[2:]
    if len(shape) != len(dims):
        allowed = f"{len(dims)} axes ({', '.join(dims)})"
        raise SettingsError(name, f"a tensor of shape {shape}", allowed)
    return dims
