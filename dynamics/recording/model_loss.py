"""The loss of a recorded model as a function of its parameters, given in Python or by a
small file.

The file, or the two functions passed in Python, define

    def loss(parameters, batch): ...  # the mean loss of a batch, from a dict of tensors by the names of the parameters
    def batches(): ...                # the batches over whose losses the mean is taken, with equal weights

`parameters` holds the tensors that `dynamics.record(..., weights=True)` recorded: the
trained parameters, with respect to which the loss is differentiated, and the buffers,
such as the running statistics of BatchNorm. With a torch module, the loss is

    logits = torch.func.functional_call(model, parameters, (inputs,))
    return torch.nn.functional.cross_entropy(logits, labels)
"""

import copy
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import xarray as xr
from torch.utils._pytree import tree_leaves, tree_map

from dynamics.errors import TrajectoryError
from dynamics.folders import expand_home
from dynamics.networks.derivatives import (
    FlatLoss,
    depends_on,
    differentiable_twice,
    gradient_fault,
    hessian_fault,
    value_and_gradient,
)
from dynamics.recording.module_modes import Mode, ModuleModes
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    SECOND_MOMENT,
    describe,
    near_missing_names,
    recorded_names,
    with_tied,
)
from dynamics.settings import LOSS_FILE, SettingsError
from dynamics.trajectory.schema import INCOMPLETE_SINCE
from dynamics.user_code import read_source, reported_errors, run_source


class ModelLoss(NamedTuple):
    """The loss of a model, and the batches on which it is measured.

    Examples
    --------
    >>> import torch
    >>> given = ModelLoss(lambda parameters, batch: (parameters["weight"] * batch).mean(), lambda: [torch.ones(3)])
    >>> given.loss({"weight": torch.full((3,), 2.0)}, given.batches()[0])
    tensor(2.)
    """

    loss: Callable[[dict[str, torch.Tensor], Any], torch.Tensor]
    """Called as ``loss(parameters, batch)`` with the parameters and buffers by their
    names in the state dict; returns the mean loss of the batch, a tensor with one
    element."""
    batches: Callable[[], Iterable[Any]]
    """Returns one pass over the data: an iterable of batches, all of which are kept in
    memory."""
    path: Path | None = None
    """The file that defines both."""
    field: str = "loss"
    """Name of the argument or option for error messages."""


def load_loss(path: str | Path) -> ModelLoss:
    """Run a Python file that defines `loss` and `batches`.

    Parameters
    ----------
    path : str or Path
        The file. It can import modules that lie beside it.

    Returns
    -------
    ModelLoss

    Raises
    ------
    SettingsError
        If the file is missing, raises an error, or lacks one of the functions.

    Examples
    --------
    >>> from pathlib import Path
    >>> text = "def loss(parameters, batch): return sum((each**2).mean() for each in parameters.values())"
    >>> _ = Path("my_loss.py").write_text(text + chr(10) + "def batches(): return [None]")
    >>> load_loss("my_loss.py").batches()
    [None]
    """
    path = expand_home(path, "loss")
    module = run_source(path, read_source(path, "loss", LOSS_FILE), "loss")
    for name in ("loss", "batches"):
        if not callable(getattr(module, name, None)):
            raise SettingsError("loss", f"{path} without a function {name}", LOSS_FILE)
    return ModelLoss(module.loss, module.batches, path)


class RecordedModel:
    """A recorded model with its loss: flat parameters of each frame, and the loss of
    each batch as a function of them. Buffers are those of the frame.

    Parameters
    ----------
    trajectory : xr.Dataset
        Recorded with ``weights=True``.
    given : ModelLoss
    dtype : torch.dtype
        Type in which the loss is computed. Numbers of batches are converted to it if
        they are floating-point.
    mode : "train" or "eval", optional
        Mode of the torch modules that the loss calls. Default: the one that they have.

    Raises
    ------
    TrajectoryError
        If no parameters are recorded.
    SettingsError
        If the loss cannot be computed, is random, or does not depend on the parameters.
    """

    def __init__(
        self,
        trajectory: xr.Dataset,
        given: ModelLoss,
        dtype: torch.dtype = torch.float64,
        mode: Mode | None = None,
    ) -> None:
        self.trajectory = trajectory
        self.given = given
        self.dtype = dtype
        self.modes = ModuleModes(mode)
        self.buffers = recorded_names(trajectory, BUFFER)
        self.shapes = parameter_shapes(trajectory)
        self.lengths = [math.prod(shape) for shape in self.shapes.values()]
        self.size = sum(self.lengths)
        self.has_moments = all(
            f"{SECOND_MOMENT}{name}" in trajectory for name in self.shapes
        )
        with reported_errors(given.path, "batches()"):
            self.batches = [tree_map(self._convert, batch) for batch in given.batches()]
        if not self.batches:
            raise SettingsError(
                given.field,
                f"{given.path or 'batches()'}, which has no batch",
                "at least one batch",
            )
        tensors = [
            leaf for leaf in tree_leaves(self.batches) if isinstance(leaf, torch.Tensor)
        ]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self._is_checked = False
        self._check_loss()

    def row(self, run: int, frame: int, prefix: str = PARAMETER) -> torch.Tensor:
        """Flat parameters (parameter,) of a frame, or with the prefix SECOND_MOMENT
        their second moments. Raises TrajectoryError if the model has others there that
        are not recorded."""
        if not self.is_complete(frame):
            step = int(self.trajectory["step"][frame])
            first = self.trajectory.attrs[INCOMPLETE_SINCE]
            raise TrajectoryError(
                f"step: found {step}, allowed is less than {first}, since which the"
                " model has parameters that are not recorded"
            )
        frames = (
            self.trajectory[prefix + name].isel(run=run, step=frame).values
            for name in self.shapes
        )
        flat = [
            torch.from_numpy(values).reshape(-1).to(self.dtype) for values in frames
        ]
        return torch.cat(flat).to(self.device)

    def is_complete(self, frame: int) -> bool:
        """Whether the values of all parameters that the model has at a frame are
        recorded."""
        first = self.trajectory.attrs.get(INCOMPLETE_SINCE, math.inf)
        return int(self.trajectory["step"][frame]) < first

    def unflatten(self, row: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters by name, from flat ones."""
        pieces = row.split(self.lengths)
        return {
            name: piece.view(shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def losses(self, run: int, frame: int) -> list[FlatLoss]:
        """The loss of each batch, with the buffers of a frame."""
        loss = self.batch_loss(run, frame)
        return [functools.partial(loss, batch) for batch in self.batches]

    def batch_loss(self, run: int, frame: int) -> Callable[..., torch.Tensor]:
        """The loss as a function of a batch and flat parameters, with the buffers of a
        frame."""
        return functools.partial(self.loss, self.buffer_values(run, frame))

    def buffer_values(self, run: int, frame: int) -> dict[str, torch.Tensor]:
        """The buffers of a frame, by name."""
        arrays = {
            name: self.trajectory[BUFFER + name].isel(run=run, step=frame).values
            for name in self.buffers
        }
        return {
            name: self._convert(torch.from_numpy(array).to(self.device))
            for name, array in arrays.items()
        }

    def loss(
        self, buffers: Mapping[str, torch.Tensor], batch: Any, row: torch.Tensor
    ) -> torch.Tensor:
        """The loss of a batch at flat parameters (parameter,) and buffers."""
        copies = {name: buffer.clone() for name, buffer in buffers.items()}
        tensors = with_tied(self.unflatten(row) | copies, self.trajectory.attrs)
        source = reported_errors(self.given.path, "loss()")
        with (
            source,
            near_missing_names(tensors),
            self.modes.observed(copies),
            differentiable_twice(),
        ):
            value = self.given.loss(tensors, batch)
        is_number = isinstance(value, torch.Tensor) and value.numel() == 1
        return value.reshape(()) if is_number else value

    def _convert(self, leaf: Any) -> Any:
        return (
            leaf.to(self.dtype)
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            else leaf
        )

    def check_derivatives(self, run: int, frame: int) -> None:
        """Check the gradient and the Hessian of the loss of the first batch once, in
        float64 if the loss can be computed in it. Raises SettingsError."""
        if self._is_checked:
            return
        self._is_checked = True
        model = copy.copy(self)
        model.dtype = torch.float64
        model.batches = [tree_map(model._convert, self.batches[0])]
        try:
            model.losses(run, frame)[0](model.row(run, frame))
        except SettingsError:  # of a loss in float32 alone
            model = self
        with reported_errors(self.given.path, "the derivative of loss()"):
            loss = model.losses(run, frame)[0]
            row = model.row(run, frame)
            fault = gradient_fault(loss, row) or hessian_fault(loss, row)
        if fault:
            allowed = "a loss whose derivatives, by torch, are those of differences"
            raise self._error(fault, allowed)

    def _error(self, found: str, allowed: str) -> SettingsError:
        source = self.given.path or "the given loss"
        return SettingsError(self.given.field, f"{source}: {found}", allowed)

    def _check_loss(self) -> None:
        """Call the loss of the first batch at the first frame. Raises SettingsError."""
        row = self.row(0, 0)
        loss = self.losses(0, 0)[0]
        with reported_errors(self.given.path, "loss()"):
            value, again = loss(row), loss(row)
            if (
                not isinstance(value, torch.Tensor)
                or value.numel() != 1
                or not value.is_floating_point()
            ):
                allowed = "a tensor with one number, the mean"
                raise self._error(f"loss() returns {describe(value)}", allowed)
            if not value.isfinite().all() and row.isfinite().all():
                found = f"loss() returns {value.item()} at the first frame"
                raise self._error(found, "a finite number")
            if not torch.equal(value, again):
                raise self._error(
                    f"loss() returns {value:.6g} and then {again:.6g}",
                    "the same number for the same parameters; model.eval() in the file"
                    " switches dropout off",
                )
            if not depends_on(loss, row):
                raise self._error(
                    "loss() does not depend on the parameters",
                    "a loss of `parameters`, for example by torch.func.functional_call",
                )
        if self.modes.mode is not None and not self.modes.modes:
            allowed = "no value for a loss that calls no torch module"
            raise SettingsError("mode", self.modes.mode, allowed)


def mean_value_and_gradient(
    losses: Sequence[FlatLoss], row: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """The mean loss over the batches, and its gradient (parameter,)."""
    pairs = [value_and_gradient(loss, row) for loss in losses]
    value = sum(float(value) for value, _ in pairs) / len(pairs)
    return value, torch.stack([gradient for _, gradient in pairs]).mean(0)


def parameter_shapes(trajectory: xr.Dataset) -> dict[str, tuple[int, ...]]:
    """The shapes of the recorded parameters, by name. Raises TrajectoryError if there
    are none."""
    names = recorded_names(trajectory, PARAMETER)
    if not names:
        how = (
            "dynamics.record(..., weights=True) and sims.collect --weights record the"
            " parameters"
        )
        raise TrajectoryError(f"variables {PARAMETER}NAME: missing; {how}")
    return {
        name: trajectory[PARAMETER + name].isel(run=0, step=0).shape for name in names
    }
