"""What is recorded of a model: parameters by name, parts of them, and functions of the
model."""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import itertools
import json
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch.nn.parameter import is_lazy

from dynamics.settings import SettingsError
from dynamics.trajectory.description import METRIC_VARIABLES
from dynamics.trajectory.schema import RESERVED_NAMES, VARIABLES


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


@dataclasses.dataclass(frozen=True)
class OwnQuantity:
    """A recorded quantity that is computed of a model without code of the user."""

    function: Callable[[torch.nn.Module], torch.Tensor]

    def __call__(self, model: torch.nn.Module) -> torch.Tensor:
        return self.function(model)


_NAME = re.compile(r"[^\W][^/\x00-\x1f\x7f]{0,198}[^/\s\x00-\x1f\x7f]|[^\W]")
"""Names of variables that netCDF accepts."""

_USED = {*RESERVED_NAMES, *METRIC_VARIABLES, "layer", "split"}
"""Names of every file of a recording that no quantity of the user can have."""

LEARNING_RATE = "learning_rate"
"""Name of the learning rate of the first parameter group."""

LEARNING_RATES, MOMENT_UPDATES = "learning_rates", "moment_updates"
"""Names of the learning rate of each trained parameter, and of the number of updates that
its second moment has received, (run, step, parameter)."""

OPTIMIZER_NUMBERS = "optimizer_numbers"
"""Name of the numbers `NUMBER_NAMES` of the optimizer of each trained parameter, (run,
step, parameter, number), and of the attribute with their names, as JSON."""

NUMBER_NAMES = (
    "momentum",
    "nesterov",
    "dampening",
    "beta1",
    "weight_decay",
    "decoupled_weight_decay",
)
"""The numbers of SGD, Adam and AdamW of torch on which their stability depends. Weight
decay is either added to the gradient or decoupled from it. NaN: numbers that an
optimizer does not have, and those of other optimizers."""

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
        if not tensor.numel() or tensor.layout != torch.strided:
            continue
        memory = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        place = (*memory, tensor.dtype, tuple(tensor.shape), tensor.stride())
        if first.setdefault(place, name) != name:
            result[name] = first[place]
    return result


def recorded_names(trajectory: xr.Dataset, prefix: str) -> list[str]:
    """The names of the tensors whose variables begin with a prefix, without it."""
    names = map(str, trajectory.data_vars)
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


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
    not known yet, or some on the meta device, which have no values."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            allowed = (
                "a model whose lazy modules have been initialised by a forward pass"
                " before record"
            )
            raise SettingsError("model", f"{name} without a shape", allowed)
        if tensor.is_meta:
            allowed = "values, for example by to_empty() and load_state_dict()"
            raise SettingsError("model", f"{name} on the meta device", allowed)


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
            view = parameter_view(embedding or "")
            flip = ", transpose=True" if view.transpose else ""
            how = f'dynamics.ParameterView("{view.name}"{flip}, rows={modulus})'
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


WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Parts that wrappers of modules add to names: torch.compile, FSDP, checkpointing."""


@functools.cache
def plain_name(name: str) -> str:
    """The name of a parameter without those of wrappers of modules.

    >>> plain_name("blocks._orig_mod.0.weight")
    'blocks.0.weight'
    """
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


@functools.cache
def parameter_view(quantity: str | ParameterView) -> ParameterView:
    """The view of a parameter that a name stands for, without names of wrappers."""
    view = ParameterView(quantity) if isinstance(quantity, str) else quantity
    return dataclasses.replace(view, name=plain_name(view.name))


def named_parameters(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters of a model by their first names."""
    return {plain_name(name): item for name, item in model.named_parameters()}


def trained_parameter(name: str, model: torch.nn.Module) -> torch.nn.Parameter | None:
    """The parameter of this name, or that from which pruning computes the tensor of this
    name; None if the model has neither."""
    for path in (name, f"{name}_orig"):
        with contextlib.suppress(AttributeError):
            value = operator.attrgetter(path)(model)
            if isinstance(value, torch.nn.Parameter):
                return value
    return None


def named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a model by all their names."""
    named = itertools.chain(
        model.named_parameters(remove_duplicate=False),
        model.named_buffers(remove_duplicate=False),
    )
    return {plain_name(name): tensor for name, tensor in named}


def read_quantities(
    quantities: Mapping[str, Quantity],
    model: torch.nn.Module,
    tensors: Mapping[str, torch.Tensor] | None = None,
    restore: Callable[[], None] = lambda: None,
) -> dict[str, torch.Tensor]:
    """The tensors of quantities, detached. `tensors` are those of the model by name, if
    they have been read. A name of something that the model computes, such as a weight
    that is pruned, is read as an attribute. `restore` is called after each function.
    Raises SettingsError."""
    tensors = dict(named_tensors(model) if tensors is None else tensors)
    result = {}
    for name, quantity in quantities.items():
        if callable(quantity):
            result[name] = torch.as_tensor(quantity(model)).detach()
            if not isinstance(quantity, OwnQuantity):
                restore()
            continue
        view = parameter_view(quantity)
        if view.name not in tensors:
            with contextlib.suppress(AttributeError):
                tensors[view.name] = operator.attrgetter(view.name)(model)
        result[name] = view.of(tensors).detach()
    return result


def calls_user_code(quantity: Quantity, tensors: Collection[str]) -> bool:
    """Whether reading a quantity runs code of the user or of the model, which has
    tensors of these names."""
    if callable(quantity):
        return not isinstance(quantity, OwnQuantity)
    return parameter_view(quantity).name not in tensors


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
    check_kind(name, tensor)
    if not callable(quantity) and not torch.isfinite(tensor).all():
        raise SettingsError(
            name, "a value that is not finite", "finite values at the beginning"
        )
    variable_dims(name, tuple(tensor.shape))
    return tuple(tensor.shape)


def check_mapping(field: str, values: object, allowed: str) -> None:
    """Raise SettingsError unless an argument is a mapping whose keys are strings."""
    if not isinstance(values, Mapping):
        raise SettingsError(field, f"a {type(values).__name__}", allowed)
    for name in values:
        if not isinstance(name, str):
            raise SettingsError(field, f"the name {name!r}", allowed)


def check_kind(name: str, tensor: torch.Tensor, where: str = "") -> None:
    """Raise SettingsError unless a variable of this name can have the values of a
    tensor: dense and real ones, and floating-point ones for the embedding. Integers of
    other variables are recorded as they are."""
    if tensor.is_complex():
        allowed = "real values, for example by torch.view_as_real"
        raise SettingsError(name, f"values of {tensor.dtype}{where}", allowed)
    if tensor.layout != torch.strided or tensor.is_quantized:
        allowed = "a dense tensor, for example by to_dense() or dequantize()"
        kind = tensor.dtype if tensor.is_quantized else tensor.layout
        raise SettingsError(name, f"a tensor of {kind}{where}", allowed)
    if name == "embedding" and not tensor.is_floating_point():
        allowed = "floating-point values; those of a quantized model need its scales"
        raise SettingsError(name, f"values of {tensor.dtype}{where}", allowed)


def recorded_weights(
    model: torch.nn.Module, trained: Collection[str]
) -> dict[str, Quantity]:
    """The trained parameters, of these names, and what else the model computes with, by
    the names of their variables. Parameters that are not trained are recorded as
    buffers; buffers that are not floating-point or not finite, or not in the state
    dict, are left out. Raises SettingsError for complex parameters."""
    state = {plain_name(name) for name in model.state_dict()}
    parameters = named_parameters(model)
    for name in trained:
        if parameters[name].is_complex():
            allowed = "real parameters; variables= can record torch.view_as_real"
            what = f"{name} of {parameters[name].dtype}"
            raise SettingsError("weights", what, allowed)
    result: dict[str, Quantity] = {f"{PARAMETER}{name}": name for name in trained}
    buffers = {plain_name(name): item for name, item in model.named_buffers()}
    for name, tensor in {**parameters, **buffers}.items():
        floating = name in state and tensor.is_floating_point()
        if name not in trained and floating and tensor.isfinite().all():
            result[f"{BUFFER}{name}"] = name
    return result


def as_array(values: torch.Tensor) -> np.ndarray:
    """A copy of a tensor as an array: float64 stays, other floating-point types become
    float32, and truth values 0 and 1 of int8."""
    if values.dtype == torch.bool:
        values = values.to(torch.int8)
    if values.is_floating_point() and values.dtype != torch.float64:
        values = values.float()
    return np.array(values.detach().cpu().numpy())


def check_name(field: str, name: object, taken: Collection[str] = ()) -> None:
    """Raise SettingsError, which names the field, unless a name can be that of a
    variable of a file, and the format and the `taken` names leave it free."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = (
            "up to 200 characters without / and control characters that begin with a"
            " letter, a digit or _ and do not end with a blank"
        )
        raise SettingsError(field, repr(name), allowed)
    if name in _USED or name in taken:
        allowed = "a name that the file does not use otherwise"
        raise SettingsError(field, name, allowed)


def variable_dims(
    name: str, shape: tuple[int, ...], names: Collection[str] = ()
) -> tuple[str, ...]:
    """The dimensions, after run and step, of a recorded variable beside others with
    these names, which no dimension gets. Raises SettingsError."""
    if name != LEARNING_RATE:
        check_name("name of a variable", name)
    variable = VARIABLES.get(name)
    if variable is None:
        begin = f"{name}_"
        while any(f"{begin}{axis}" in names for axis in range(len(shape))):
            begin += "_"
        return tuple(f"{begin}{axis}" for axis in range(len(shape)))
    dims = variable.dims[2:]
    if len(shape) != len(dims):
        allowed = f"{len(dims)} axes ({', '.join(dims)})"
        raise SettingsError(name, f"a tensor of shape {shape}", allowed)
    return dims


def dims_and_coords(
    shapes: Mapping[str, tuple[int, ...]], others: Collection[str] = ()
) -> tuple[dict[str, tuple[str, ...]], dict[str, np.ndarray]]:
    """The dimensions, after run and step, of variables of these shapes beside those
    with the names `others`, and the coordinates. Raises SettingsError if a dimension
    has two sizes or the name of a variable."""
    dims: dict[str, tuple[str, ...]] = {}
    coords: dict[str, np.ndarray] = {}
    names = {*shapes, *others}
    for name, shape in shapes.items():
        dims[name] = variable_dims(name, shape, names)
        for dim, size in zip(dims[name], shape, strict=True):
            if len(coords.setdefault(dim, np.arange(size))) != size:
                allowed = f"{len(coords[dim])}, as in other variables"
                raise SettingsError(name, f"{size} along {dim}", allowed)
    for name in sorted(names & {*coords}):
        allowed = "a name that is no dimension of the file"
        raise SettingsError("name of a variable", name, allowed)
    return dims, coords
