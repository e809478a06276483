"""Recording a model while its own loop trains it."""

import contextlib
import dataclasses
import functools
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import xarray as xr

from dynamics.errors import (
    Interrupted,
    RecordingError,
    ReportedError,
    UnrestoredRecording,
)
from dynamics.interruption import deferred_signals
from dynamics.provenance import identity_of
from dynamics.recording.embedding_gradient import EmbeddingGradient
from dynamics.recording.metrics import (
    METRICS,
    Measured,
    by_split,
    describe_splits,
    is_finite,
    metric_arrays,
    shared_splits,
)
from dynamics.recording.model_file import ModelFile, embedding_of, load_model_file
from dynamics.recording.model_recorder import (
    RESTART_STATE,
    ModelRecorder,
    OpenSchedule,
    Position,
    padded,
)
from dynamics.recording.moments import check_moments
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    LearningRate,
    LearningRates,
    MomentUpdates,
    ParameterView,
    Quantity,
    as_array,
    check_initialised,
    check_residues,
    checked_shape,
    describe,
    read_quantities,
    recorded_moments,
    recorded_rates_and_updates,
    recorded_weights,
    state_signature,
    variable_dims,
)
from dynamics.recording.recorded_activations import ProbeActivations
from dynamics.recording.recorded_network import check_model
from dynamics.recording.state_bytes import state_from_bytes, state_to_bytes
from dynamics.recording.training_copies import training_copies
from dynamics.recording.training_state import (
    as_optimizers,
    check_states,
    read_training_state,
    set_training_state,
    undisturbed,
)
from dynamics.recording.update_norms import Layers, UpdateNorms, group_parameters
from dynamics.run_checks import MAX_STEPS, check_trajectory_path
from dynamics.settings import RecordedSettings, SettingsError, check_integer, check_real
from dynamics.trajectory.description import RunDescription, describe_origin, seeds_of
from dynamics.trajectory.parts import closed_parts
from dynamics.trajectory.schema import EMBEDDING_LAYER, NORM_VARIABLES

GRADIENT = "embedding_gradient"
LEARNING_RATE = "learning_rate"


def record(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    path: str | Path,
    *,
    every: int = 1,
    embedding: Quantity | None = None,
    modulus: int = 0,
    variables: Mapping[str, Quantity] | None = None,
    weights: bool = False,
    moments: bool = False,
    embedding_gradient: bool = False,
    activations: Mapping[str, str] | None = None,
    probe: Any = None,
    layers: Layers | None = None,
    evaluate: Callable[[torch.nn.Module], Mapping[str, Any]] | None = None,
    states: Mapping[str, Any] | None = None,
    restart_every: int = 0,
    seed: int | None = None,
    epoch_steps: int = 0,
    overwrite: bool = False,
    model_file: ModelFile | str | Path | None = None,
) -> "Recording":
    """Record a torch model while a loop of its own trains it.

    The result is a context manager around the loop, in which ``recording.step(loss=...,
    accuracy=...)`` is called after each update of the optimizer. The file is a
    trajectory of one run that every analysis reads.

    Parameters
    ----------
    model : torch.nn.Module
        Of a model compiled by ``torch.compile``, the original module is recorded.
    optimizer : torch.optim.Optimizer or sequence of them
        The optimizers of the model; a step of the trajectory is an update of them.
    path : str or Path
        File to write, NAME.nc.
    every : int
        Updates between recorded frames. The state after the last update is recorded
        too.
    embedding : str, ParameterView or callable, optional
        The embedding (token, axis): the name of a parameter, a view of one, or a
        function of the model that returns a tensor. Analyses of structure need it.
    modulus : int
        Modulus N of the addition that the model learns, if its tokens are the numbers
        modulo N; the embedding then has N rows. Analyses compare the embedding with the
        classes i + j mod N: of another operation, such as i - j, they find circles,
        polygons and frequencies, but imperfections of grids, particles and the audit do
        not apply.
    variables : mapping of str to str, ParameterView or callable, optional
        Other tensors to record, by their names in the file. ``learning_rate`` is always
        recorded, by default that of the first parameter group of the first optimizer
        when `step` is called.
    weights : bool
        Record all trained parameters, as variables named ``parameter.NAME``, and what
        else the model computes with as ``buffer.NAME``: the floating-point buffers of
        its state dict, such as the running statistics of BatchNorm, and the parameters
        that no optimizer has or that do not require gradients at the beginning.
        Curvature needs them. Tensors that are not finite, such as masks, are left
        out.
    moments : bool
        Record Adam's second moments of the gradients of all trained parameters, divided
        by their bias corrections, as variables named ``second_moment.NAME`` (0 at the
        beginning). Curvature preconditioned by Adam needs them.
    embedding_gradient : bool
        Record the gradient of the embedding, which must be a parameter, as the
        optimizer uses it in the first update after each frame. The force audit
        (``analysis.audit``) needs it.
    activations : mapping of str to str, optional
        Modules whose outputs on the probe are recorded, such as ``{"mlp":
        "blocks.0.mlp"}``, as variables named ``activation.NAME``; of a tuple, its first
        tensor. They are those of eval mode, from one forward pass for each frame.
    probe : tensor, tuple or dict, optional
        Fixed batch: the argument of the model, its arguments, or those by name.
    layers : mapping of str to str or sequence of str, optional
        Patterns of parameter names, such as ``{"mlp": "blocks.*.mlp.*"}``, of which one
        norm each is recorded. Default: each parameter is a layer.
    evaluate : callable, optional
        Called as ``evaluate(model)`` for each frame, without gradients; returns
        ``{"loss": {"train": ..., "test": ...}, "accuracy": {...}}``, and further
        numbers by name. A split that it returns replaces that given to `step`. Its
        random numbers do not change the training.
    states : mapping of str to object, optional
        What the training depends on besides the model and optimizer, by name:
        schedulers, gradient scalers and other objects with ``state_dict`` and
        ``load_state_dict``, and generators of torch or NumPy.
    restart_every : int
        Keep exact restart states at multiples of this number of updates, for example at
        the ends of epochs, where a loop over a shuffled loader can begin again.
        Default: about one a minute, of which the last is kept.
    seed : int, optional
        Seed of the run in the file, by which runs of an ensemble are told apart.
        Default: ``torch.initial_seed()``.
    epoch_steps : int
        Updates in an epoch; 0 if the file is to have no epochs.
    overwrite : bool
        Replace an existing recording.
    model_file : ModelFile or path, optional
        Functions of the model for later analyses (`ModelFile`). The file contains their
        source, the weights are recorded, and the embedding and the modulus are those of
        the model file unless they are given.

    Returns
    -------
    Recording

    Raises
    ------
    SettingsError
        If arguments are not valid; the message lists all of them.

    Examples
    --------
    >>> import torch
    >>> from dynamics import open_trajectory, record
    >>> model = torch.nn.Sequential(torch.nn.Embedding(5, 2), torch.nn.Linear(2, 5))
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> tokens = torch.arange(5)
    >>> with record(model, optimizer, "mine.nc", every=10, embedding="0.weight", seed=0) as recording:
    ...     for _ in range(100):
    ...         loss = torch.nn.functional.cross_entropy(model(tokens), tokens)
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         recording.step(loss=loss)
    >>> open_trajectory("mine.nc")["embedding"].shape
    (1, 11, 5, 2)
    """
    model = getattr(model, "_orig_mod", model)
    check_initialised(model)
    functions = ModelFile()
    if model_file is not None:
        if isinstance(model_file, str | Path):
            model_file = load_model_file(model_file)
        functions = model_file
        weights, modulus = True, modulus or functions.modulus
        if embedding is None and functions.embedding is not None:
            embedding = functools.partial(_embedding_of, functions)
    optimizers, states = as_optimizers(optimizer), states or {}
    quantities: dict[str, Quantity] = {}
    if embedding is not None:
        quantities["embedding"] = embedding
    quantities |= {LEARNING_RATE: LearningRate(optimizers[0]), **(variables or {})}
    with _CollectedErrors() as errors:
        checked_path = errors.attempt(_checked_path, path)
        for name, value, low, high in (
            ("every", every, 1, MAX_STEPS),
            ("restart_every", restart_every, 0, MAX_STEPS),
            ("modulus", modulus, 0, MAX_STEPS),
            ("epoch_steps", epoch_steps, 0, MAX_STEPS),
            ("seed", seed or 0, 0, 2**62),
        ):
            errors.attempt(check_integer, name, value, low, high)
        errors.attempt(check_states, states)
        rate = float(optimizers[0].param_groups[0]["lr"])
        errors.attempt(check_real, "learning rate of the optimizer", rate)
        if activations:
            outputs = errors.attempt(ProbeActivations, model, activations, probe)
            quantities |= outputs.quantities if outputs else {}
        groups = errors.attempt(group_parameters, model, optimizers, layers)
        shapes = {
            name: errors.attempt(checked_shape, name, quantity, model)
            for name, quantity in quantities.items()
        }
        if not errors.errors:
            rows = shapes["embedding"][0] if embedding is not None else 0
            errors.attempt(check_residues, modulus, embedding, rows)
        adam = errors.attempt(check_moments, optimizers) if moments else {}
        if embedding_gradient:
            gradient = errors.attempt(EmbeddingGradient, embedding, model, optimizers)
            quantities[GRADIENT] = gradient
    trained: dict[str, str] = {}
    if weights:
        quantities |= recorded_weights(model, groups)
        states_of_optimizers, trained = recorded_rates_and_updates(
            model, groups, optimizers, moments
        )
        quantities = states_of_optimizers | quantities
    if moments:
        quantities |= recorded_moments(model, groups, optimizers)
    if model_file is not None:
        _check_functions(functions, model, quantities, modulus)
    settings = RecordedSettings(
        model=type(model).__name__,
        optimizer="+".join(type(one).__name__ for one in optimizers),
        parameters=sum(p.numel() for members in groups.values() for p in members),
        signature=state_signature(model.state_dict()),
        recorded=", ".join(quantities),
        modulus=modulus,
        epoch_steps=epoch_steps,
        time_step=rate,
        **adam,
    )
    seed = torch.initial_seed() % 2**62 if seed is None else seed
    device = next(iter(groups.values()))[0].device.type
    return Recording(
        checked_path,
        Training(model, optimizers, states, groups),
        quantities,
        evaluate,
        settings,
        identity_of(settings, 1, seed, every, device=device),
        restart_every,
        overwrite,
        functions.attributes(modulus) | trained,
    )


def _embedding_of(functions: ModelFile, model: torch.nn.Module) -> torch.Tensor:
    """The embedding (token, axis) of a module by a model file."""
    return embedding_of(functions, model.state_dict())


def _check_functions(
    functions: ModelFile,
    model: torch.nn.Module,
    quantities: Mapping[str, Quantity],
    modulus: int,
) -> None:
    """Call the functions of a model file with the tensors that are recorded. Raises
    SettingsError."""
    names = [name for name in quantities if name.startswith((PARAMETER, BUFFER))]
    tensors = read_quantities({name: quantities[name] for name in names}, model)
    variables = {
        name: (
            ("run", "step", *variable_dims(name, tensor.shape)),
            as_array(tensor)[None, None],
        )
        for name, tensor in tensors.items()
    }
    check_model(xr.Dataset(variables, attrs={"modulus": modulus}), functions)


class _CollectedErrors:
    """Collects the errors of several checks, and raises one that lists them all."""

    def __enter__(self) -> Self:
        self.errors: list[SettingsError] = []
        return self

    def attempt(self, check: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a check, or None if it raises SettingsError."""
        try:
            return check(*arguments)
        except SettingsError as error:
            self.errors.append(error)
            return None

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None and len(self.errors) > 1:
            error = SettingsError("", "", "")
            error.args = ("\n".join(map(str, self.errors)),)
            raise error
        if kind is None and self.errors:
            raise self.errors[0]


def _checked_path(path: str | Path) -> Path:
    """The path of the file to write. Raises SettingsError, which names the argument."""
    try:
        return check_trajectory_path(path)
    except SettingsError as error:
        raise SettingsError("path", error.found, error.allowed) from None


_OWN_QUANTITIES = (LearningRate, LearningRates, MomentUpdates, EmbeddingGradient)
"""Classes of functions of the model that do not call the user's code."""


@dataclasses.dataclass(frozen=True)
class Training:
    """What a recording observes: a model, its optimizers, other states, and the
    parameters of each layer."""

    model: torch.nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    states: Mapping[str, Any]
    groups: Mapping[str, Sequence[torch.nn.Parameter]]


class Recording:
    """A recording of a model: a context manager around the training loop, returned by
    `record`."""

    def __init__(
        self,
        path: Path,
        training: Training,
        quantities: Mapping[str, Quantity],
        evaluate: Callable[[torch.nn.Module], Mapping[str, Any]] | None,
        settings: RecordedSettings,
        identity: Mapping[str, Any],
        restart_every: int,
        overwrite: bool,
        attributes: Mapping[str, str],
    ) -> None:
        self.path = path
        self.training = training
        self.quantities = quantities
        self.evaluate = evaluate
        self.settings = settings
        self.identity = identity
        self.restart_every = restart_every
        self.every: int = identity["every"]
        gradient = quantities.get(GRADIENT)
        self.gradient = gradient if isinstance(gradient, EmbeddingGradient) else None
        schedule = OpenSchedule(MAX_STEPS, self.every, restart_every=restart_every)
        attrs = describe_origin(
            settings, identity, MAX_STEPS, torch.get_num_threads(), 1
        )
        attrs |= {
            EMBEDDING_LAYER: _embedding_layer(training, quantities.get("embedding")),
            **attributes,
        }
        unknown = RunDescription(
            {},
            {},
            {},
            seeds_of(identity),
            settings.time_step,
            settings.epoch_steps,
            attrs,
        )
        self.recorder = ModelRecorder(path, unknown, schedule, identity, overwrite)
        self.diverged_at: int | None = None
        self._parameters = dict(training.model.named_parameters())
        self._metrics: dict[str, np.ndarray] | None = None  # of the frame of step 0
        self._first: dict[str, np.ndarray] | None = (
            None  # arrays of step 0, until its frame is complete
        )
        self._last: dict[str, np.ndarray] = {}  # the last frame
        self._last_step = -1
        self._given: dict[str, list[str]] | None = None  # splits of each metric
        self._must_restore = self._has_begun = self._has_entered = False
        self._in_progress = False
        self._calls_without_update = 0  # of step
        self._latest_call: tuple[int, Measured, Measured] | None = None
        """Updates at the latest call of step, and the loss and accuracy that it was
        given."""
        self._state_bytes = 0  # length of the restart states so far
        self._observer: Any = (
            self  # the recorder calls observe and checkpoint, as those of a system
        )

    # ------------------------------------------------------------------------- the loop

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as held:
            self._received = held.enter_context(deferred_signals())
            held.enter_context(self.recorder)
            self._must_restore = self.recorder.exists() and not self.recorder.overwrite
            self.norms = UpdateNorms(
                self.training.groups,
                self.training.optimizers,
                lambda update: self._first is not None or update >= self._next_frame(),
                self._keep_gradient,
            )
            held.callback(self.norms.remove)
            if not self._must_restore:
                self._first, self._evaluated = self._read_arrays(), self._evaluate()
            self._held = held.pop_all()
        self._has_entered = self._in_progress = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._in_progress = False
        with self._held:
            if not self._must_restore:
                if kind is None:
                    self._finish()
                    self._warn_without_update()
                elif not issubclass(kind, Interrupted):
                    self._keep_after(kind)
        if kind is None and self._received:
            signal.raise_signal(self._received[0])

    def _keep_after(self, kind: type[BaseException]) -> None:
        """Write what is recorded so far, after an exception in the loop, and say where
        it is."""
        updates = self.norms.updates
        misses_frame = updates >= self._next_frame()
        try:
            if self.diverged_at is not None:
                self._finish()
            elif self._has_begun and (self.restart_every or misses_frame):
                self.recorder.close_part_at_kept_state()
            elif self._has_begun:
                self.recorder.close_part(Position.at(updates), self._observer)
        except (ReportedError, OSError) as error:
            print(
                f"{self.path}: {kind.__name__}; the last frames cannot be written"
                f" ({error})",
                file=sys.stderr,
            )
        parts = closed_parts(self.path)
        if parts:
            how = (
                "recording.restore() continues it, overwrite=True replaces it, and"
                " dynamics.open_trajectory reads it"
            )
            saved = (
                f"the recording up to update {parts[-1].end} is kept in"
                f" {parts[-1].path.parent}"
            )
            print(f"{self.path}: {kind.__name__}; {saved}: {how}", file=sys.stderr)

    def _warn_without_update(self) -> None:
        if self._calls_without_update and not self.norms.updates:
            calls = (
                f"{self._calls_without_update} calls of step, but no update of the"
                " optimizer was seen"
            )
            warnings.warn(
                f"{self.path}: {calls}: pass the optimizer that is stepped",
                RuntimeWarning,
                stacklevel=3,
            )

    def _check_entered(self) -> None:
        if not self._has_entered:
            raise RecordingError(
                f"{self.path}: not open; use: with dynamics.record(...) as recording"
            )

    def step(self, loss: Measured = None, accuracy: Measured = None) -> None:
        """Record a frame if `every` updates have been made since the last one.

        To be called after each update; calls without a new update, for example during
        gradient accumulation, change nothing. With several updates between calls,
        frames are recorded at the calls. A loss that was computed before the update
        belongs to the weights before it; `evaluate` measures at the recorded weights.

        Parameters
        ----------
        loss, accuracy : float, tensor, mapping of str to float, or callable, optional
            A number (of split ``train``), numbers by split, or a function that returns
            one of them and is called for recorded frames only; in a mapping too:
            ``{"train": loss, "test": measure_test_loss}``.

        Raises
        ------
        SettingsError
            If the splits differ from those of the frames before.
        RecordingError
            If the file contains a recording that was not restored, or cannot be
            written, or if a parameter of the model has been replaced by another.
        Interrupted
            After SIGINT or SIGTERM, when everything is on disk.
        """
        self._check_entered()
        if self._must_restore:
            allowed = (
                "recording.restore() before the loop continues it, overwrite=True"
                " replaces it"
            )
            raise UnrestoredRecording(f"{self.path}: exists already; {allowed}")
        updates = self.norms.updates
        self._latest_call = updates, loss, accuracy
        self._calls_without_update += not updates
        if self.diverged_at is None:
            self._record_due_frames(updates, loss, accuracy)
        at_restart = (
            self._has_begun
            and self.diverged_at is None
            and updates % max(1, self.restart_every) == 0
        )
        if at_restart and (self._received or self.recorder.part_is_due()):
            self.recorder.close_part(Position.at(updates), self._observer)
        elif at_restart and self.restart_every and updates not in self.recorder.states:
            self.recorder.keep_state(Position.at(updates), self._observer)
        if self._received:
            raise Interrupted(
                self._received.pop(),
                self.path,
                self.recorder.close_part_at_kept_state(),
            )

    def _record_due_frames(
        self, updates: int, loss: Measured, accuracy: Measured
    ) -> None:
        if not is_finite(loss):
            self._end_diverged(updates, "the loss")
            return
        if self._first is not None:
            if self._metrics is None and (
                updates > 0 or loss is not None or accuracy is not None
            ):
                self._metrics = self._read_metrics(loss, accuracy, self._evaluated)
            if updates > 0:
                self._complete_first_frame()
        if updates > 0 and updates >= self._next_frame():
            self._read_frame(updates, loss, accuracy)

    def _read_frame(self, updates: int, loss: Measured, accuracy: Measured) -> None:
        frame = self._read_arrays() | self._read_metrics(loss, accuracy)
        self._add_frame(updates, frame | self._read_norms())

    def _keep_gradient(self, place: int, updates: int) -> None:
        """Keep the gradient of the embedding that the first update after a frame
        uses."""
        if (
            self.gradient is not None
            and place == self.gradient.place
            and updates == max(0, self._last_step)
        ):
            self.gradient.keep()

    def _next_frame(self) -> int:
        return (max(self._last_step, 0) // self.every + 1) * self.every

    def _complete_first_frame(self) -> None:
        """Record the frame of step 0, whose gradient is that of the first update."""
        assert self._first is not None
        norms = self._read_norms()
        norms["update_norm"] = np.zeros_like(norms["update_norm"])
        first, self._first = {**self._first, **(self._metrics or {}), **norms}, None
        self._add_frame(0, first)

    def _add_frame(self, step: int, frame: dict[str, np.ndarray]) -> None:
        bad = [
            name
            for name, values in frame.items()
            if values.dtype.kind == "f" and not np.isfinite(values).all()
        ]
        if bad and self._last_step < 0:
            raise RecordingError(
                f"{self.path}: {bad[0]} is not finite at the beginning"
            )
        if bad:
            self._end_diverged(step, bad[0])
            return
        for name, before in self._last.items():
            if frame[name].shape != before.shape:
                raise RecordingError(
                    f"{self.path}: {name} has the shape {frame[name].shape} at step"
                    f" {step}, and {before.shape} in the frames before"
                )
        if not self._has_begun:
            self._begin(frame)
        self._last, self._last_step = frame, step
        self.recorder.add(Position.at(step), self._observer)

    def _end_diverged(self, step: int, what: str) -> None:
        """End the recording: the run has diverged, and repeats its last frame."""
        if self._first is not None:
            raise RecordingError(
                f"{self.path}: {what} is not finite in the first update"
            )
        self.diverged_at = max(step, self._last_step + 1)
        message = (
            f"{what} is not finite at step {step}: the run has diverged, and"
            f" {self.path} ends there"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    # --------------------------------------------------------------------------- values

    def _read_arrays(self) -> dict[str, np.ndarray]:
        """The recorded tensors of the model, as arrays. Raises RecordingError if a
        parameter has been replaced."""
        now = dict(self.training.model.named_parameters())
        for name, parameter in self._parameters.items():
            if now.get(name) is not parameter:
                raise RecordingError(
                    f"{self.path}: parameter {name} is no longer that of the beginning;"
                    " set its values in place, for example by copy_() under"
                    " torch.no_grad()"
                )
        calls = any(
            callable(quantity) and not isinstance(quantity, _OWN_QUANTITIES)
            for quantity in self.quantities.values()
        )
        model = self.training.model
        with undisturbed(model) if calls else contextlib.nullcontext():
            tensors = read_quantities(self.quantities, model)
        return {name: as_array(tensor) for name, tensor in tensors.items()}

    def _read_norms(self) -> dict[str, np.ndarray]:
        return {
            "gradient_norm": self.norms.gradient,
            "update_norm": self.norms.update,
        }

    def _evaluate(self) -> Mapping[str, Any]:
        """What the user's function measures."""
        if self.evaluate is None:
            return {}
        if not callable(self.evaluate):
            raise SettingsError(
                "evaluate", describe(self.evaluate), "a function of the model"
            )
        model = self.training.model
        with undisturbed(model, parameters=True):
            metrics = self.evaluate(model)
        if not isinstance(metrics, Mapping):
            raise SettingsError(
                "evaluate",
                f"a function that returns {describe(metrics)}",
                'one that returns {"loss": ...}',
            )
        return metrics

    def _read_metrics(
        self,
        loss: Measured,
        accuracy: Measured,
        evaluated: Mapping[str, Any] | None = None,
    ) -> dict[str, np.ndarray]:
        """Losses, accuracies and other numbers, as arrays; splits that loss and
        accuracy do not share get names of their own, such as accuracy_test."""
        given = {"loss": loss, "accuracy": accuracy}
        evaluated = self._evaluate() if evaluated is None else evaluated
        values = {
            name: by_split(name, value)
            for name, value in given.items()
            if value is not None
        }
        for name, value in evaluated.items():
            values[name] = {**values.get(name, {}), **by_split(name, value)}
        for fraction in values.get("accuracy", {}).values():
            if fraction < 0 or fraction > 1 + 1e-6:
                raise SettingsError("accuracy", fraction, "a fraction from 0 to 1")
        splits = {name: list(parts) for name, parts in values.items()}
        self._given = splits if self._given is None else self._given
        if splits != self._given:
            raise SettingsError(
                "loss, accuracy",
                describe_splits(splits),
                f"{describe_splits(self._given)}, as in the first frame",
            )
        return metric_arrays(values)

    def _begin(self, frame: Mapping[str, np.ndarray]) -> None:
        """Set the description of the run; its variables are known once the first frame
        has been read."""
        dims: dict[str, tuple[str, ...]] = {}
        coords: dict[str, np.ndarray] = {"layer": np.array(list(self.training.groups))}
        for name, values in frame.items():
            if name in METRICS:
                dims[name] = ("split",)
                coords["split"] = np.array(shared_splits(self._given or {}))
            elif name in NORM_VARIABLES:
                dims[name] = ("layer",)
            else:
                dims[name] = (
                    variable_dims(name, values.shape) if name in self.quantities else ()
                )
                for dim, size in zip(dims[name], values.shape, strict=True):
                    if len(coords.setdefault(dim, np.arange(size))) != size:
                        raise SettingsError(
                            name,
                            f"{size} along {dim}",
                            f"{len(coords[dim])}, as in other variables",
                        )
        description = dataclasses.replace(
            self.recorder.description, dims=dims, coords=coords
        )
        self.recorder.begin(description)
        self._has_begun = True

    # -------------------------------------------------------- interface to the recorder

    def observe(self, position: Position) -> dict[str, np.ndarray]:
        """The last frame, with an axis for the run."""
        return {name: values[None] for name, values in self._last.items()}

    def checkpoint(self, position: Position) -> dict[str, np.ndarray]:
        """The restart state, as bytes with an axis for the run."""
        training = self.training
        state = read_training_state(
            training.model, training.optimizers, training.states
        )
        state |= {"updates": self.norms.updates, "last_step": self._last_step}
        if self.gradient is not None:
            state[GRADIENT] = self.gradient.last
        data = padded(state_to_bytes(state), self._state_bytes)
        self._state_bytes = len(data)
        return {"step": np.array(position.step), RESTART_STATE: data[None]}

    def _finish(self) -> None:
        updates = self.norms.updates
        if self._first is not None:
            self._metrics = self._metrics or self._read_metrics(
                None, None, self._evaluated
            )
            self._complete_first_frame()
        missing = ""
        if self.diverged_at is None and updates > self._last_step:
            missing = self._record_last_frame(updates)
        if self.diverged_at is not None:
            self.recorder.add(
                Position.at(self.diverged_at, self._last_step), self._observer
            )
        elif missing:
            warnings.warn(f"{self.path}: {missing}", RuntimeWarning, stacklevel=3)
        ends = self._last_step if self.diverged_at is None else self.diverged_at
        now = Position.at(max(updates, ends))
        self.recorder.finish_at(now, Position.at(ends, self._last_step), self._observer)

    def _record_last_frame(self, updates: int) -> str:
        """Record a frame after the last update, which `every` does not divide; or
        return why there is none."""
        if self._latest_call is None:
            return (
                f"the optimizer made {updates} updates, but recording.step() was never"
                " called; call it after each update"
            )
        reason = "recording.step() was not called after them"
        if self._latest_call[0] == updates:
            try:
                self._read_frame(*self._latest_call)
                return ""
            except (SettingsError, RecordingError) as error:
                reason = str(error)
        count = updates - self._last_step
        return f"the last {count} of {updates} updates are not recorded: {reason}"

    def restore(self) -> int:
        """Restore the training to the last restart state in the file, if there is one.

        Sets the model, the optimizers, the `states` and the random generators of torch,
        NumPy and Python. Frames after that state are discarded and recorded again.

        Returns
        -------
        int
            The number of updates that have been made: 0 for a new recording.

        Raises
        ------
        SettingsError
            If the file contains a recording with other settings.
        TrajectoryError
            If the file is damaged, or its state is that of another model.
        """
        self._check_entered()
        if self._has_begun or (self.norms.updates and not self._must_restore):
            raise RecordingError(
                f"{self.path}: restore() was called after the first update"
            )
        arrays = self.recorder.resume()
        if arrays is None:
            return 0
        if self.recorder.has_diverged():
            raise RecordingError(
                f"{self.path}: this run has diverged and cannot be continued;"
                " overwrite=True replaces it"
            )
        state = state_from_bytes(arrays[RESTART_STATE][0])
        training = self.training
        set_training_state(state, training.model, training.optimizers, training.states)
        self._last_step = state["last_step"]
        self._first = None
        self._must_restore = False
        self.norms.counts = [state["updates"]] * len(self.norms.counts)
        if self.gradient is not None:
            self.gradient.last = state[GRADIENT].to(self.gradient.parameter.device)
        return state["updates"]

    # -------------------------------------------------------------- after the recording

    def branches(
        self,
        step: int,
        copies: int = 100,
        displace: float = 0.01,
        *,
        reshuffle: bool = False,
    ) -> Iterator[torch.nn.Module]:
        """Set the training to a restart state of the finished recording, once for each
        copy.

        The model, the optimizers and the `states` are those of the recording. After
        each copy has been yielded, the caller's own loop trains the model from there
        and measures how it ends. After the last copy, and if the loop is left, all have
        again the state that they had before.

        Parameters
        ----------
        step : int
            Number of updates after which the copies begin; the recording must have a
            restart state there (`restart_every` of `record`).
        copies : int
            Number of copies.
        displace : float
            Size of the displacements, relative to the standard deviation of each
            parameter in this state. 0 displaces nothing.
        reshuffle : bool
            Give each copy random numbers of its own.

        Yields
        ------
        torch.nn.Module
            The recorded model with the state of the next copy.

        Raises
        ------
        RecordingError
            If the recording is in progress.
        SettingsError
            If an argument is not valid, or there is no restart state at this step.
        TrajectoryError
            If the file is missing or damaged, has no restart states, or those of
            another model.

        See Also
        --------
        dynamics.training_copies : The same for a file and a model that was built again.

        Examples
        --------
        >>> import dynamics, torch
        >>> model = torch.nn.Linear(1, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def train(updates, recording=None):
        ...     for _ in range(updates):
        ...         optimizer.zero_grad()
        ...         (model(torch.ones(1)) ** 2).sum().backward()
        ...         optimizer.step()
        ...         if recording:
        ...             recording.step()
        >>> options = {"restart_every": 5}
        >>> with dynamics.record(model, optimizer, "slope.nc", **options) as recording:
        ...     train(20, recording)
        >>> ends = []
        >>> for branch in recording.branches(10, copies=3, displace=0.1):
        ...     train(10)
        ...     ends.append(abs(branch(torch.ones(1)).item()) < 0.01)
        >>> ends
        [True, True, True]
        """
        if self._in_progress:
            raise RecordingError(
                f"{self.path}: the recording is in progress; call branches() after the"
                " with block"
            )
        model = self.training.model
        numbers = training_copies(
            self.path,
            model,
            self.training.optimizers,
            step,
            copies,
            displace,
            states=self.training.states,
            reshuffle=reshuffle,
        )
        return (model for _ in numbers)


# ------------------------------------------------------------------------------- layers


def _embedding_layer(training: Training, embedding: Quantity | None) -> str:
    """The layer that contains the parameter of the embedding; an empty name if there is
    none."""
    name = embedding.name if isinstance(embedding, ParameterView) else embedding
    parameter = (
        dict(training.model.named_parameters()).get(name)
        if isinstance(name, str)
        else None
    )
    layers = (
        layer
        for layer, members in training.groups.items()
        if any(member is parameter for member in members)
    )
    return next(layers, "")
