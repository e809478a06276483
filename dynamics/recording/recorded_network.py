"""A model from outside as a network that combines two numbers modulo N: its logits, its
embedding, and the gradient of its loss, at recorded parameters."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.networks.derivatives import (
    FlatLoss,
    depends_on,
    gradient_fault,
    value_and_gradient,
)
from dynamics.recording.model_file import ModelFile, embedding_of
from dynamics.recording.model_loss import ModelLoss
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    describe,
    near_names,
    recorded_names,
    with_tied,
)
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.user_code import DTYPE_ERROR

CONFIG = "model_config"
"""Attribute of a trajectory: the argument of `module`, as JSON."""

_PAIRS_AT_ONCE = 2**14


class RecordedNetwork:
    """The functions of a model file at the parameters of a trajectory.

    Parameters
    ----------
    trajectory : xr.Dataset
        With variables ``parameter.NAME``.
    model : ModelFile

    Raises
    ------
    TrajectoryError
        If no parameters are recorded, or no modulus is known.
    SettingsError
        If the functions cannot be computed.
    """

    def __init__(self, trajectory: xr.Dataset, model: ModelFile) -> None:
        self.trajectory = trajectory
        self.model = model
        self.names = {
            name: f"{prefix}{name}"
            for prefix in (PARAMETER, BUFFER)
            for name in recorded_names(trajectory, prefix)
        }
        if not self.names:
            raise TrajectoryError(
                f"variables {PARAMETER}NAME: missing; dynamics.record(...,"
                " weights=True) and sims.collect --model record the parameters"
            )
        self.n = model.modulus or int(trajectory.attrs.get("modulus", 0))
        if self.n < 3:
            raise SettingsError(
                "modulus",
                self.n or "none",
                f"at least 3, as `modulus = N` in {self.model.name} or as --modulus of"
                " sims.collect",
            )
        self.dtype = torch.float64
        self._module: torch.nn.Module | None = None
        self._embedding_checked = self._gradient_checked = False
        self._adapt_precision()

    def _adapt_precision(self) -> None:
        """Compute in float32 if the user's functions mix types in float64."""
        parameters = self.parameters(0, 0)
        pairs = torch.tensor([[0, 1], [2, 2]])
        try:
            self._check_functions(parameters, pairs)
        except SettingsError as error:
            if not re.search(DTYPE_ERROR, str(error)):
                raise
            self.dtype = torch.float32
            self._module = None
            self._check_functions(self.parameters(0, 0), pairs)

    def _check_functions(
        self, parameters: dict[str, torch.Tensor], pairs: torch.Tensor
    ) -> None:
        if self.has_logits:
            self.logits(parameters, pairs)
        if self.model.embedding is not None:
            self.embedding(parameters)

    def parameters(self, run: int, frame: int) -> dict[str, torch.Tensor]:
        """Parameters and buffers of a frame, by their names in the state dict."""
        result = {}
        for name, variable in self.names.items():
            values = self.trajectory[variable].isel(run=run, step=frame).values
            tensor = torch.from_numpy(np.array(values))
            floating = tensor.is_floating_point()
            result[name] = tensor.to(self.dtype) if floating else tensor
        return result

    # ------------------------------------------------------------------------- logits

    @property
    def has_logits(self) -> bool:
        return self.model.logits is not None or self.model.module is not None

    def logits(
        self, parameters: Mapping[str, torch.Tensor], pairs: torch.Tensor
    ) -> torch.Tensor:
        """Logits (pair, class) of pairs of numbers (pair, 2). Raises SettingsError."""
        if not self.has_logits:
            raise self._missing("logits(parameters, inputs)")
        tensors = with_tied(parameters, self.trajectory.attrs)
        with self.model.reported_errors("logits", tensors):
            if self.model.logits is not None:
                result = self.model.logits(tensors, pairs)
            else:
                result = torch.func.functional_call(
                    self.module(parameters), tensors, (pairs,)
                )
        if (
            not isinstance(result, torch.Tensor)
            or result.ndim not in (2, 3)
            or result.shape[0] != len(pairs)
            or result.shape[-1] < self.n
        ):
            what = describe(result)
            raise self.model.error(
                f"logits() returns {what} for {len(pairs)} pairs",
                f"a tensor ({len(pairs)}, {self.n}), or more classes",
            )
        return (result[:, -1] if result.ndim == 3 else result)[:, : self.n]

    def module(self, parameters: Mapping[str, torch.Tensor]) -> torch.nn.Module:
        """The module of the model file. Raises SettingsError if the recorded parameters
        are not those of the module."""
        if self._module is not None:
            return self._module
        assert self.model.module is not None
        config = json.loads(self.trajectory.attrs.get(CONFIG, "{}"))
        module = self.model.module(config)
        if not isinstance(module, torch.nn.Module):
            raise self.model.error(
                f"module() returns {type(module).__name__}",
                "a torch.nn.Module",
            )
        aliases: dict[int, list[str]] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            aliases.setdefault(id(parameter), []).append(name)
        for names in aliases.values():
            if not set(names) & set(parameters):
                raise self.model.error(
                    f"the module has a parameter {names[0]}, which is"
                    " not in the trajectory",
                    near_names(names[0], parameters),
                )
        unknown = sorted(set(parameters) - set(module.state_dict()))
        if unknown:
            raise self.model.error(
                f"the module has no tensor {unknown[0]}, which is in the trajectory",
                near_names(unknown[0], module.state_dict()),
            )
        self._module = module.eval().to(self.dtype)
        return self._module

    def all_logits(self, parameters: Mapping[str, torch.Tensor]) -> np.ndarray:
        """Logits of all ordered pairs of numbers: (a, b, class) float64. Raises
        SettingsError if one is not finite."""
        numbers = torch.arange(self.n)
        pairs = torch.cartesian_prod(numbers, numbers)
        with torch.no_grad():
            parts = [self.logits(parameters, p) for p in pairs.split(_PAIRS_AT_ONCE)]
        result = torch.cat(parts).double().numpy()
        finite = np.isfinite(result).all(axis=-1)
        if not finite.all():
            a, b = pairs[int(finite.argmin())].tolist()
            raise self.model.error(
                f"logits() returns a value that is not finite for the pair ({a}, {b})",
                "finite numbers",
            )
        return result.reshape(self.n, self.n, self.n)

    def classes(self, run: int, frame: int, pairs: np.ndarray) -> np.ndarray:
        """The class that is predicted for each pair of numbers (pair, 2)."""
        with torch.no_grad():
            logits = self.logits(self.parameters(run, frame), torch.from_numpy(pairs))
        return logits.argmax(-1).numpy()

    def point_classes(
        self, parameters: Mapping[str, torch.Tensor], points: np.ndarray
    ) -> np.ndarray:
        """The class that is predicted at points (point, axis) of the plane of sums, for
        two numbers whose embeddings are both half of the point.

        Raises SettingsError if the logits of a pair depend on embeddings of other
        numbers, as with tied weights."""
        halves = torch.from_numpy(points).to(self.dtype) / 2
        table = self.embedding(parameters).detach()
        twice = torch.arange(self.n)[:, None].expand(-1, 2)
        with torch.no_grad():
            replace = self.embedding_setter(parameters)
            moved = replace(torch.cat([table[:1], table[1:] + 1.0]))
            before, after = (self.logits(p, twice[:1]) for p in (parameters, moved))
            size = 1e-5 * float(before.abs().max())
            if not torch.allclose(before, after, rtol=0.0, atol=size):
                raise self.model.error(
                    "logits() that depend on the embeddings of other numbers",
                    "logits of the embeddings of the pair alone, for this measure",
                )
            result = []
            for part in halves.split(self.n):
                whole = torch.cat([part, table[len(part) :]])
                state = replace(whole)
                result.append(self.logits(state, twice[: len(part)]).argmax(-1))
        return torch.cat(result).numpy()

    def training_pairs(self, run: int) -> np.ndarray | None:
        """The training pairs (pair, 2) of a run; None if they are not known. Raises
        SettingsError, TrajectoryError."""
        return known_training_pairs(self.trajectory, self.model, self.n, run)

    # ---------------------------------------------------------------------- embedding

    def embedding(self, parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The embedding (token, axis) of the N numbers. Raises SettingsError."""
        if self.model.embedding is None:
            raise self._missing("embedding(parameters)")
        tensors = with_tied(parameters, self.trajectory.attrs)
        return embedding_of(self.model, tensors, self.n)

    def embedding_setter(
        self, parameters: Mapping[str, torch.Tensor]
    ) -> Callable[[torch.Tensor], dict[str, torch.Tensor]]:
        """A function that returns the parameters with another embedding (token, axis)
        of the numbers.

        The embedding is a part of the parameters, perhaps transposed: then the
        transpose of its derivative puts a change of the embedding where it belongs.
        Raises SettingsError for another embedding."""
        floats = {k: v for k, v in parameters.items() if v.is_floating_point()}
        rest = {k: v for k, v in parameters.items() if k not in floats}
        value, transpose, *_ = torch.func.vjp(
            lambda part: self.embedding({**part, **rest}), floats
        )

        def replace(table: torch.Tensor) -> dict[str, torch.Tensor]:
            (changes,) = transpose(table - value)
            return {name: floats[name] + changes[name] for name in floats} | rest

        if not self._embedding_checked:
            self._embedding_checked = True
            table = self.embedding(parameters).detach() + 1.0
            with torch.no_grad():
                result = self.embedding(replace(table))
            if not torch.allclose(result, table, rtol=1e-4, atol=1e-4):
                raise self.model.error(
                    "embedding() that is no part of one parameter",
                    "rows of a parameter, perhaps transposed, for this measure",
                )
        return replace

    # --------------------------------------------------------------------------- loss

    def loss(
        self, parameters: Mapping[str, torch.Tensor], run: int = 0
    ) -> torch.Tensor:
        """The mean loss of the batches, or of the training pairs of a run, a tensor
        with no dimension. Raises SettingsError."""
        given = self.loss_and_batches(run)
        tensors = with_tied(parameters, self.trajectory.attrs)
        with self.model.reported_errors("loss", tensors):
            losses = [given.loss(dict(tensors), batch) for batch in given.batches()]
            return torch.stack([value.reshape(()) for value in losses]).mean()

    def loss_and_batches(self, run: int = 0) -> ModelLoss:
        """The loss of a batch and the batches: by default the cross-entropy, and the
        training pairs of a run with their answers. Raises SettingsError."""
        loss, batches = self.model.loss, self.model.batches
        if batches is not None and loss is None:
            raise self._missing("loss(parameters, batch)")
        if batches is None:
            data = self.training_data(run)

            def batches() -> Iterable[Any]:
                return [data]

        return ModelLoss(loss or self._cross_entropy, batches, self.model.path, "model")

    def _cross_entropy(
        self,
        parameters: dict[str, torch.Tensor],
        batch: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        pairs, answers = batch
        logits = self.logits(parameters, pairs)
        return torch.nn.functional.cross_entropy(logits, answers)

    def training_data(self, run: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The training pairs (pair, 2) of a run, and their answers (pair,). Raises
        SettingsError if they are not known."""
        pairs = self.training_pairs(run)
        if pairs is None:
            raise self._missing(
                "training_pairs(), or loss(parameters, batch) with batches()"
            )
        answers = self.model.answers(self.n)[pairs[:, 0], pairs[:, 1]]
        return torch.from_numpy(pairs), torch.from_numpy(answers)

    def embedding_gradient(self, run: int, frame: int) -> np.ndarray:
        """The gradient of the loss by the embedding, (token, axis) float64. Raises
        SettingsError."""
        parameters = self.parameters(run, frame)
        table = self.embedding(parameters).detach()
        setter = self.embedding_setter(parameters)

        def loss(flat: torch.Tensor) -> torch.Tensor:
            return self.loss(setter(flat.view(table.shape)), run)

        value, gradient = value_and_gradient(loss, table.reshape(-1))
        if not value.isfinite() and all(
            p.isfinite().all() for p in parameters.values()
        ):
            raise self.model.error(
                f"loss() returns {value.item()} at frame {frame} of run {run}",
                "a finite number",
            )
        if not self._gradient_checked:
            self._gradient_checked = True
            self._check_gradient(loss, table.reshape(-1))
        return gradient.view(table.shape).double().numpy()

    def _check_gradient(self, loss: FlatLoss, table: torch.Tensor) -> None:
        fault = "" if depends_on(loss, table) else "it does not depend on embedding()"
        fault = fault or gradient_fault(loss, table)
        if fault:
            raise self.model.error(
                f"loss(): {fault}",
                "a loss that is computed from the given parameters by torch",
            )

    def _missing(self, functions: str) -> SettingsError:
        return SettingsError(
            "model", f"{self.model.name} without {functions}", functions
        )


def known_training_pairs(
    trajectory: xr.Dataset, model: ModelFile | None, n: int, run: int
) -> np.ndarray | None:
    """The training pairs (pair, 2) of a run, from the model file or the trajectory;
    None if they are not known. Raises SettingsError, TrajectoryError."""
    allowed = f"numbers (pair, 2) from 0 to {n - 1}"
    if model is not None and model.training_pairs is not None:
        with model.reported_errors("training_pairs"):
            pairs = np.asarray(model.training_pairs())
        found = f"{model.name}: training_pairs() returns {_describe(pairs)}"
        error: Exception = SettingsError("model", found, allowed)
    elif "training_pairs" in trajectory:
        pairs = trajectory["training_pairs"].isel(run=run, step=0).values
        found = f"variable training_pairs: found {_describe(pairs)}"
        error = TrajectoryError(f"{found}, expected {allowed}")
    else:
        return None
    fits = pairs.ndim == 2 and pairs.shape[1] == 2 and len(pairs)
    if not fits or not np.isin(pairs, np.arange(n)).all():
        raise error
    return pairs.astype(np.int64)


def check_model(trajectory: xr.Dataset, model: ModelFile) -> None:
    """Call the functions of a model file at the first frame of a trajectory. Raises
    SettingsError."""
    numbers = model.modulus or trajectory.attrs["modulus"]
    if numbers and (model.embedding or model.logits or model.module):
        RecordedNetwork(trajectory, model).training_pairs(0)


def recorded_loss(trajectory: xr.Dataset, model: ModelFile) -> ModelLoss:
    """The loss of a model file as a function of the recorded parameters: its `loss` and
    `batches`, or the cross-entropy of its `logits` of the training pairs.

    Parameters
    ----------
    trajectory : xr.Dataset
    model : ModelFile

    Returns
    -------
    ModelLoss

    Raises
    ------
    SettingsError
        If it has neither.
    TrajectoryError
        If no parameters are recorded.

    Examples
    --------
    >>> import torch
    >>> from dynamics import ModelFile, collect_checkpoints, recorded_loss
    >>> layer = torch.nn.Linear(3, 3)
    >>> torch.save(layer.state_dict(), "layer-0.pt")
    >>> def loss(parameters, batch): return parameters["weight"].square().mean()
    >>> model = ModelFile(loss=loss, batches=lambda: [None])
    >>> trajectory = collect_checkpoints(["layer-0.pt"], model=model)
    >>> recorded_loss(trajectory, model).batches()
    [None]
    """
    if model.loss is not None and model.batches is not None:  # of any model
        return ModelLoss(model.loss, model.batches, model.path, "model")
    recorded = trajectory.get("training_pairs")
    if model.training_pairs is None and model.batches is None and recorded is not None:
        pairs = recorded.transpose("run", ...).values
        if (pairs != pairs[:1]).any():
            raise SettingsError(
                "runs",
                "runs with different training pairs",
                "one of them (--run-indices), as they have no loss in common",
            )
    return RecordedNetwork(trajectory, model).loss_and_batches()


def with_model(trajectory: xr.Dataset, model: ModelFile | None) -> xr.Dataset:
    """A trajectory with what a model file says: the modulus N, and the variable
    `embedding`, if they are not recorded, and the source of the file.

    Parameters
    ----------
    trajectory : xr.Dataset
        Returned as it is without a model, and for a system of the package.
    model : ModelFile, optional

    Returns
    -------
    xr.Dataset

    Examples
    --------
    >>> import torch
    >>> from dynamics import ModelFile, collect_checkpoints, with_model
    >>> torch.save({"table": torch.ones(5, 2)}, "table-0.pt")
    >>> model = ModelFile(embedding=lambda parameters: parameters["table"], modulus=5)
    >>> bare = collect_checkpoints(["table-0.pt"], weights=True)
    >>> with_model(bare, model)["embedding"].shape
    (1, 1, 5, 2)
    """
    if model is None or trajectory.attrs["system"] != RecordedSettings.system:
        return trajectory
    modulus = trajectory.attrs["modulus"] or model.modulus
    attrs = {"modulus": modulus, **model.attributes(modulus)}
    if "embedding" in trajectory or model.embedding is None:
        return trajectory.assign_attrs(attrs)
    network = RecordedNetwork(trajectory, model)
    runs, steps = trajectory.sizes["run"], trajectory.sizes["step"]
    with torch.no_grad():
        tables = [
            network.embedding(network.parameters(run, frame)).numpy()
            for run in range(runs)
            for frame in range(steps)
        ]
    values = np.stack(tables).reshape(runs, steps, *tables[0].shape)
    embedding = xr.DataArray(values, dims=("run", "step", "token", "axis"))
    return trajectory.assign(embedding=embedding).assign_attrs(attrs)


def _describe(values: np.ndarray) -> str:
    return f"{values.dtype} of shape {values.shape}"
