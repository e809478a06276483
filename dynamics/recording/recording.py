"""Recording a model while its own loop trains it."""

import contextlib
import dataclasses
import functools
import json
import signal
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

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
    calls_functions,
    copy_of,
    describe_splits,
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
from dynamics.recording.moments import (
    MomentUpdates,
    SecondMoment,
    SecondMoments,
)
from dynamics.recording.observed_training import (
    LearningRate,
    LearningRates,
    ObservedTraining,
)
from dynamics.recording.processes import (
    check_whole_parameters,
    inner_module,
    is_distributed,
    is_first_process,
    process_count,
)
from dynamics.recording.quantities import (
    BUFFER,
    LEARNING_RATES,
    MOMENT_UPDATES,
    PARAMETER,
    SECOND_MOMENT,
    TRAINED,
    ParameterView,
    Quantity,
    as_array,
    check_initialised,
    check_residues,
    checked_shape,
    describe,
    named_tensors,
    plain_name,
    read_quantities,
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
    undisturbed,
)
from dynamics.recording.update_norms import (
    Layers,
    ModelLayers,
    UpdateNorms,
)
from dynamics.run_checks import MAX_STEPS, check_trajectory_path
from dynamics.settings import RecordedSettings, SettingsError, check_integer, check_real
from dynamics.trajectory.description import RunDescription, describe_origin, seeds_of
from dynamics.trajectory.parts import last_step_of, unfinished_files
from dynamics.trajectory.schema import (
    EMBEDDING_LAYER,
    INCOMPLETE_SINCE,
    NORM_VARIABLES,
    NOT_FOLLOWED,
    must_be_finite,
)

GRADIENT = "embedding_gradient"
LEARNING_RATE = "learning_rate"
NO_RESTORE = (
    "restore() cannot continue a training of several processes; restore your own"
    " checkpoints and record with overwrite=True"
)


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
    trajectory of one run that every analysis reads. Of a training of several processes
    the first one records. docs/guides/recording-guarantees.md lists what is promised.

    Parameters
    ----------
    model : torch.nn.Module
        Of a model compiled by ``torch.compile``, the original module is recorded.
    optimizer : torch.optim.Optimizer or sequence of them
        The optimizers of the model; a step of the trajectory is an update of them.
        Others that are built later are followed in their steps.
    path : str or Path
        File to write, NAME.nc; a relative path is that of the present folder.
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
        Called as ``evaluate(model)`` for each frame, without gradients, in the mode
        that the model has in `step`; returns
        ``{"loss": {"train": ..., "test": ...}, "accuracy": {...}}``, and further
        numbers by name. A split that it returns replaces that given to `step`. The
        training is afterwards as before the call.
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
    wrapper, model = model, inner_module(model)
    check_whole_parameters(wrapper)
    if not is_first_process():
        return RecordingElsewhere(path)
    check_initialised(model)
    training = ObservedTraining(wrapper, optimizer, states)
    optimizers = training.optimizers
    quantities: dict[str, Quantity] = {}
    with undisturbed(wrapper) as restore, _CollectedErrors() as errors:
        functions = ModelFile()
        if model_file is not None:
            if isinstance(model_file, str | Path):
                model_file = load_model_file(model_file)
            restore()
            functions = model_file
            weights, modulus = True, modulus or functions.modulus
            if embedding is None and functions.embedding is not None:
                embedding = functools.partial(_embedding_of, functions)
        if embedding is not None:
            quantities["embedding"] = embedding
        checked_path = errors.attempt(_checked_path, path)
        for name, value, low, high in (
            ("every", every, 1, MAX_STEPS),
            ("restart_every", restart_every, 0, MAX_STEPS),
            ("modulus", modulus, 0, MAX_STEPS),
            ("epoch_steps", epoch_steps, 0, MAX_STEPS),
            ("seed", seed or 0, 0, 2**62),
        ):
            errors.attempt(check_integer, name, value, low, high)
        errors.attempt(check_states, training.states)
        rate = float(training.rates[0][1])
        errors.attempt(check_real, "learning rate of the optimizer", rate)
        quantities |= {LEARNING_RATE: LearningRate(training), **(variables or {})}
        if activations:
            outputs = errors.attempt(ProbeActivations, model, activations, probe)
            quantities |= outputs.quantities if outputs else {}
        model_layers = errors.attempt(ModelLayers, model, optimizers, layers)
        shapes = {}
        for name, quantity in quantities.items():
            shapes[name] = errors.attempt(checked_shape, name, quantity, model)
            restore()
        if not errors.errors:
            rows = shapes["embedding"][0] if embedding is not None else 0
            errors.attempt(check_residues, modulus, embedding, rows)
        second_moments = errors.attempt(SecondMoments, optimizers if moments else [])
        if embedding_gradient:
            gradient = errors.attempt(EmbeddingGradient, embedding, model, optimizers)
            quantities[GRADIENT] = gradient
        errors.raise_all()
        trained = [
            name
            for layer in model_layers.names
            for name in model_layers.members(layer)
            if model_layers.parameters[name].requires_grad
        ]
        _check_finite(model_layers)
        if weights:
            quantities |= recorded_weights(model, trained)
            quantities[LEARNING_RATES] = LearningRates(training, trained)
        if moments:
            quantities[MOMENT_UPDATES] = MomentUpdates(second_moments, trained)
            quantities |= {
                f"{SECOND_MOMENT}{name}": SecondMoment(second_moments, name)
                for name in trained
            }
        if model_file is not None:
            _check_functions(functions, model, quantities, modulus)
    members = [
        item
        for item in model_layers.parameters.values()
        if id(item) in model_layers.layers
    ]
    settings = RecordedSettings(
        model=type(model).__name__,
        optimizer="+".join(type(one).__name__ for one in optimizers),
        parameters=sum(item.numel() for item in members),
        signature=state_signature(
            {plain_name(name): item for name, item in model.state_dict().items()}
        ),
        recorded=", ".join(quantities),
        modulus=modulus,
        epoch_steps=epoch_steps,
        time_step=rate,
        **second_moments.common,
    )
    seed = torch.initial_seed() % 2**62 if seed is None else seed
    return Recording(
        checked_path,
        training,
        model_layers,
        quantities,
        second_moments if moments else None,
        evaluate,
        settings,
        identity_of(settings, 1, seed, every, device=members[0].device.type),
        restart_every,
        overwrite,
        functions.attributes(modulus) | {TRAINED: json.dumps(trained)},
    )


def _embedding_of(functions: ModelFile, model: torch.nn.Module) -> torch.Tensor:
    """The embedding (token, axis) of a module by a model file."""
    return embedding_of(functions, model.state_dict())


def _check_finite(layers: ModelLayers) -> None:
    """Raise SettingsError if a parameter of a layer is not finite."""
    for name, parameter in layers.parameters.items():
        if id(parameter) in layers.layers and not torch.isfinite(parameter).all():
            what = f"{name}, of which a value is not finite"
            raise SettingsError("model", what, "finite parameters at the beginning")


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

    def raise_all(self) -> None:
        """Raise the errors so far, if there are any."""
        if len(self.errors) > 1:
            error = SettingsError("", "", "")
            error.args = ("\n".join(map(str, self.errors)),)
            raise error
        if self.errors:
            raise self.errors[0]

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.raise_all()


def _checked_path(path: str | Path) -> Path:
    """The path of the file to write. Raises SettingsError, which names the argument."""
    try:
        return check_trajectory_path(path).absolute()
    except SettingsError as error:
        raise SettingsError("path", error.found, error.allowed) from None


class _Call(NamedTuple):
    """A call of `Recording.step`."""

    updates: int
    loss: Measured
    accuracy: Measured


class Recording:
    """A recording of a model: a context manager around the training loop, returned by
    `record`."""

    def __init__(
        self,
        path: Path,
        training: ObservedTraining,
        layers: ModelLayers,
        quantities: Mapping[str, Quantity],
        moments: SecondMoments | None,
        evaluate: Callable[[torch.nn.Module], Mapping[str, Any]] | None,
        settings: RecordedSettings,
        identity: Mapping[str, Any],
        restart_every: int,
        overwrite: bool,
        attributes: Mapping[str, str],
    ) -> None:
        self.path = path
        self.training = training
        self.layers = layers
        self.quantities = quantities
        self.moments = moments
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
            EMBEDDING_LAYER: _embedding_layer(layers, quantities.get("embedding")),
            **attributes,
        }
        self._times: dict[int, float] = {}
        unknown = RunDescription(
            {},
            {},
            {},
            seeds_of(identity),
            settings.time_step,
            settings.epoch_steps,
            attrs,
            times=self._times,
        )
        self.recorder = ModelRecorder(path, unknown, schedule, identity, overwrite)
        self.diverged_at: int | None = None
        self.not_followed: list[str] = []
        """What of the training could not be recorded, in words."""
        self._unsaid: list[str] = []
        self._ends_early = False  # a variable cannot be read any longer
        self._look_again = False  # optimizers have other parameters than before
        self._noted: set[tuple[str, str]] = set()
        self._first_names = set(layers.parameters)
        self._first_parameters = weakref.WeakValueDictionary(
            {id(item): item for item in layers.parameters.values()}
        )
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
        self._latest_call: _Call | None = None
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
                self.layers,
                lambda update: self._first is not None or update >= self._next_frame(),
                self._keep_gradient,
                self._follow_optimizer,
            )
            held.callback(self.norms.remove)
            self._look_at_model()
            if not self._must_restore:
                self._first, self._evaluated = self._read_arrays(), self._evaluate()
            self._held = held.pop_all()
        self._has_entered = self._in_progress = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if not self._in_progress:
            return
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
        try:
            if self.diverged_at is not None:
                self._finish()
            elif self._has_begun:
                self.recorder.close_with_later_frames(Position.at(self._last_step))
        except (ReportedError, OSError) as error:
            print(
                f"{self.path}: {kind.__name__}; the last frames cannot be written"
                f" ({error})",
                file=sys.stderr,
            )
        files = unfinished_files(self.path)
        if files:
            how = (
                "recording.restore() continues it, overwrite=True replaces it, and"
                " dynamics.open_trajectory reads it"
            )
            saved = (
                f"the recording up to update {last_step_of(files[-1])} is kept in"
                f" {files[-1].parent}"
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

        Warns once, in one line, if something of the training cannot be followed.

        Parameters
        ----------
        loss, accuracy : float, tensor, mapping of str to float, or callable, optional
            A number (of split ``train``), numbers by split, or a function that returns
            one of them and is called for recorded frames only; in a mapping too:
            ``{"train": loss, "test": measure_test_loss}``. A number that is not finite
            is recorded as it is.

        Raises
        ------
        SettingsError
            If the splits differ from those of the frames before.
        RecordingError
            If the file contains a recording that was not restored, or cannot be
            written.
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
        before = self.norms.base
        updates = self.norms.settle()
        had_call = self._latest_call is not None
        if updates == before and had_call and self.training.weights_differ():
            self._note(
                f"weights have changed since step {updates}, but no update of an"
                " optimizer of torch was seen"
            )
        if self._look_again:
            self._look_at_model()
        self._calls_without_update += not updates
        self._latest_call = _Call(updates, copy_of(loss), copy_of(accuracy))
        self.training.keep_settings(self._needs_modes())
        if self._is_recording:
            self._record_due_frames(self._latest_call)
        self.training.mark()
        self._say_notes()
        self._close_due_part(updates)
        if self._received:
            raise Interrupted(
                self._received.pop(),
                self.path,
                self.recorder.close_with_later_frames(Position.at(self._last_step)),
            )

    @property
    def _is_recording(self) -> bool:
        return self.diverged_at is None and not self._ends_early

    def _needs_modes(self) -> bool:
        return self.training.calls_user_code or self.evaluate is not None

    def _close_due_part(self, updates: int) -> None:
        """Write a part or keep a restart state if one is due at this update."""
        if not (self._has_begun and self._is_recording):
            return
        if updates % max(1, self.restart_every):
            return
        if self._received or self.recorder.part_is_due():
            self.recorder.close_part(Position.at(updates), self._observer)
        elif self.restart_every and updates not in self.recorder.states:
            self.recorder.keep_state(Position.at(updates), self._observer)

    def _record_due_frames(self, call: _Call) -> None:
        updates = call.updates
        if self._first is not None:
            if self._metrics is None and (
                updates > 0 or call.loss is not None or call.accuracy is not None
            ):
                self._metrics = self._read_metrics(call, self._evaluated)
            if updates > 0:
                self._complete_first_frame()
        if updates > 0 and updates >= self._next_frame():
            self._read_frame(call)

    def _read_frame(self, call: _Call) -> None:
        self.norms.refresh()
        self._look_at_model()
        try:
            arrays = self._read_arrays()
        except SettingsError as error:
            self._end_early(str(error))
            return
        frame = arrays | self._read_metrics(call) | self._read_norms()
        self._add_frame(call.updates, frame)

    def _keep_gradient(self, optimizer: Any, updates: int) -> None:
        """Keep the gradient of the embedding that the first update after a frame
        uses."""
        if self.gradient is not None and updates == max(0, self._last_step):
            self.gradient.keep(optimizer)

    def _next_frame(self) -> int:
        return (max(self._last_step, 0) // self.every + 1) * self.every

    def _complete_first_frame(self) -> None:
        """Record the frame of step 0, whose gradient is that of the first update."""
        assert self._first is not None
        norms = self._read_norms()
        norms["update_norm"] = np.zeros_like(norms["update_norm"])
        first, self._first = {**self._first, **(self._metrics or {}), **norms}, None
        self._times[0] = 0.0
        self._begin(first)
        self._last, self._last_step = first, 0
        self.recorder.add(Position.at(0), self._observer)

    def _add_frame(self, step: int, frame: dict[str, np.ndarray]) -> None:
        for name, before in self._last.items():
            if frame[name].shape != before.shape:
                self._end_early(
                    f"{name} has the shape {frame[name].shape} at step {step}, and"
                    f" {before.shape} in the frames before"
                )
                return
        diverged = self._diverged_tensor(frame)
        if diverged:
            self._end_diverged(step, diverged)
            return
        if not self._has_begun:
            self._begin(frame)
        self._times[step] = float(self.norms.time)
        self._last, self._last_step = frame, step
        self.recorder.add(Position.at(step), self._observer)

    def _diverged_tensor(self, frame: Mapping[str, np.ndarray]) -> str:
        """The name of weights or moments that are not finite; empty if all are
        finite."""
        for name, values in frame.items():
            of_weights = must_be_finite(name, RecordedSettings.system)
            if of_weights and not np.isfinite(values).all():
                return name
        if np.isfinite(frame["update_norm"]).all():
            return ""
        for name, parameter in self.layers.parameters.items():
            if id(parameter) in self.layers.layers and not parameter.isfinite().all():
                return name
        return ""

    def _end_diverged(self, step: int, what: str) -> None:
        """End the recording: the run has diverged, and repeats its last frame."""
        self.diverged_at = max(step, self._last_step + 1)
        self._times[self.diverged_at] = float(self.norms.time)
        message = (
            f"{what} is not finite at step {step}: the run has diverged, and"
            f" {self.path} ends there"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=6)

    # ------------------------------------------------------- what the training is now

    @property
    def optimizer(self) -> Any:
        """The optimizer of the training, or a list of several. Setting it says that
        another one has taken its place; one whose steps are seen is followed anyway."""
        optimizers = self.training.optimizers
        return optimizers[0] if len(optimizers) == 1 else optimizers

    @optimizer.setter
    def optimizer(self, optimizer: Any) -> None:
        self.training.optimizers = as_optimizers(optimizer)
        for one in self.training.optimizers:
            self._follow_moments(one)
        self._look_again = True

    def _follow_optimizer(self, optimizer: Any) -> None:
        """Follow an optimizer whose step begins."""
        self._look_again = True
        self.training.follow(optimizer)
        self._follow_moments(optimizer)

    def _follow_moments(self, optimizer: Any) -> None:
        if self.moments is None:
            return
        try:
            self.moments.add(optimizer)
        except SettingsError as error:
            self._end_early(str(error))

    def _look_at_model(self) -> None:
        """Find the present parameters and buffers, and note those that cannot be
        recorded."""
        self._look_again = False
        self.training.look(self.quantities)
        since = f"since step {self.norms.updates}"
        self._note_names(
            "the norms",
            self.layers.without_layer(self.norms.optimizers),
            f"are trained {since}",
        )
        if any(name.startswith(PARAMETER) for name in self.quantities):
            new = [
                name
                for name, item in self.layers.parameters.items()
                if name not in self._first_names
                and self._first_parameters.get(id(item)) is not item
            ]
            self._note_names("the values", new, f"the model has {since}")
            if new:
                self._add_attribute(INCOMPLETE_SINCE, self.norms.updates)

    def _note_names(self, what: str, names: list[str], since: str) -> None:
        """Note that something of parameters is not recorded, once for each of them."""
        new = [name for name in names if (what, name) not in self._noted]
        self._noted |= {(what, name) for name in new}
        if new:
            shown = ", ".join(new[:3]) + (", ..." if len(new) > 3 else "")
            self._note(
                f"{what} of {len(new)} parameters that {since} are not recorded ({shown})"
            )

    def _note(self, text: str) -> None:
        """Note something that the recording cannot follow: it is said at the next call
        of step, is an attribute of the file, and the run is not done."""
        if text in self.not_followed:
            return
        self.not_followed.append(text)
        self._unsaid.append(text)
        self._add_attribute(NOT_FOLLOWED, "; ".join(self.not_followed))
        self.recorder.complete = False

    def _add_attribute(self, name: str, value: Any) -> None:
        """Add an attribute to the file; the first step since which the model is
        incomplete stays."""
        attrs = dict(self.recorder.description.attrs)
        if name != INCOMPLETE_SINCE or name not in attrs:
            attrs[name] = value
        self.recorder.description = dataclasses.replace(
            self.recorder.description, attrs=attrs
        )

    def _say_notes(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        if unsaid:
            message = f"{self.path}: {'; '.join(unsaid)}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _end_early(self, why: str) -> None:
        """Record no further frames, as a variable cannot be read any longer."""
        if not self._ends_early:
            self._ends_early = True
            self._note(
                f"no frame is recorded after step {max(0, self._last_step)}: {why}"
            )

    # --------------------------------------------------------------------------- values

    def _read_arrays(self) -> dict[str, np.ndarray]:
        """The recorded tensors of the model, as arrays. Raises SettingsError if one
        cannot be read."""
        model = self.training.model
        if not self.training.calls_user_code:
            tensors = read_quantities(self.quantities, model)
            return {name: as_array(tensor) for name, tensor in tensors.items()}
        with self.training.undisturbed() as restore:
            tensors = read_quantities(self.quantities, model, restore)
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
        with self.training.undisturbed():
            metrics = self.evaluate(self.training.model)
        if not isinstance(metrics, Mapping):
            raise SettingsError(
                "evaluate",
                f"a function that returns {describe(metrics)}",
                'one that returns {"loss": ...}',
            )
        return metrics

    def _read_metrics(
        self, call: _Call | None, evaluated: Mapping[str, Any] | None = None
    ) -> dict[str, np.ndarray]:
        """Losses, accuracies and other numbers, as arrays; splits that loss and
        accuracy do not share get names of their own, such as accuracy_test."""
        given = {} if call is None else {"loss": call.loss, "accuracy": call.accuracy}
        evaluated = self._evaluate() if evaluated is None else evaluated
        has_functions = any(
            map(calls_functions, (*given.values(), *evaluated.values()))
        )
        with contextlib.ExitStack() as context:
            restore = _nothing
            if has_functions:
                undisturbed = self.training.undisturbed(gradients=True)
                restore = context.enter_context(undisturbed)
            values = {
                name: by_split(name, value, restore)
                for name, value in given.items()
                if value is not None
            }
            for name, value in evaluated.items():
                numbers = by_split(name, value, restore)
                values[name] = {**values.get(name, {}), **numbers}
        for fraction in values.get("accuracy", {}).values():
            if np.isfinite(fraction) and not 0 <= fraction <= 1 + 1e-6:
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
        coords: dict[str, np.ndarray] = {"layer": np.array(self.layers.names)}
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
        state = self.training.state() | {
            "updates": self.norms.updates,
            "last_step": self._last_step,
            "time": float(self.norms.time),
            NOT_FOLLOWED: list(self.not_followed),
        }
        if self.gradient is not None:
            state[GRADIENT] = self.gradient.last
        data = padded(state_to_bytes(state), self._state_bytes)
        self._state_bytes = len(data)
        return {"step": np.array(position.step), RESTART_STATE: data[None]}

    def _finish(self) -> None:
        updates, call = self.norms.updates, self._latest_call
        if self._first is not None:
            self._metrics = self._metrics or self._read_metrics(None, self._evaluated)
            self._complete_first_frame()
        written = (
            call is not None
            and call.updates == updates
            and self.training.has_been_written()
        )
        if self._is_recording and updates > self._last_step:
            missing = self._record_last_frame(written)
            if missing:
                self._note(missing)
        if self.diverged_at is not None:
            self.recorder.add(
                Position.at(self.diverged_at, self._last_step), self._observer
            )
        self._say_notes()
        ends = self._last_step if self.diverged_at is None else self.diverged_at
        now, last = Position.at(max(updates, ends)), Position.at(ends, self._last_step)
        if written:
            self.recorder.finish_without_state(last)
        else:
            self.recorder.finish_at(now, last, self._observer)

    def _record_last_frame(self, written: bool) -> str:
        """Record a frame after the last update, which `every` does not divide; or
        return why there is none."""
        updates, call = self.norms.updates, self._latest_call
        if call is None:
            return (
                f"the optimizer made {updates} updates, but recording.step() was never"
                " called; call it after each update"
            )
        reason = "recording.step() was not called after them"
        if written:
            reason = (
                "after the last call of recording.step() something else has written to"
                " the model or the state of its optimizer"
            )
        elif call.updates == updates:
            try:
                self._read_frame(call)
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
        if process_count() > 1 and self.recorder.exists():
            raise RecordingError(f"{self.path}: {NO_RESTORE}")
        arrays = self.recorder.resume()
        if arrays is None:
            if self._must_restore:
                self._must_restore = False
                self._first, self._evaluated = self._read_arrays(), self._evaluate()
            return 0
        if self.recorder.has_diverged():
            raise RecordingError(
                f"{self.path}: this run has diverged and cannot be continued;"
                " overwrite=True replaces it"
            )
        state = state_from_bytes(arrays[RESTART_STATE][0])
        self.training.restore(state)
        self._last_step = state["last_step"]
        self._first = None
        self._must_restore = False
        updates = state["updates"]
        time = state.get("time", self.settings.time_step * updates)
        self.norms.continue_from(updates, time)
        for text in state.get(NOT_FOLLOWED, []):
            self._note(text)
        self._unsaid = []
        if self.gradient is not None:
            self.gradient.last = state[GRADIENT].to(self.gradient.last.device)
        return updates

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


def _nothing() -> None:
    """Do nothing."""


def _embedding_layer(layers: ModelLayers, embedding: Quantity | None) -> str:
    """The layer that contains the parameter of the embedding; an empty name if there is
    none."""
    name = embedding.name if isinstance(embedding, ParameterView) else embedding
    names = named_tensors(layers.model)
    parameter = names.get(plain_name(name)) if isinstance(name, str) else None
    return layers.layers.get(id(parameter), "")


class RecordingElsewhere(Recording):
    """What `record` returns in the processes of a training that do not record."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self._is_alone = not is_distributed()
        self._has_entered = False

    def __enter__(self) -> Self:
        self._has_entered = True
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is to be written."""

    def step(self, loss: Measured = None, accuracy: Measured = None) -> None:
        """Record nothing. Warns at the first call if there is no process group whose
        first process records."""
        if self._is_alone and not is_distributed():
            warnings.warn(
                f"{self.path}: nothing is recorded, as the launcher of this process says"
                " that it is not the first of a training; unset its variables, such as"
                " RANK and SLURM_PROCID, if it trains alone",
                RuntimeWarning,
                stacklevel=2,
            )
        self._is_alone = False

    def restore(self) -> int:
        """Return 0. Raises RecordingError if there is a recording to restore."""
        if self.path.exists() or unfinished_files(self.path):
            raise RecordingError(f"{self.path}: {NO_RESTORE}")
        return 0

    def branches(self, *arguments: Any, **options: Any) -> Iterator[torch.nn.Module]:
        """Raise RecordingError."""
        raise RecordingError(f"{self.path}: recorded by another process")

    @property
    def optimizer(self) -> Any:
        """None: optimizers are not followed."""
        return None

    @optimizer.setter
    def optimizer(self, optimizer: Any) -> None:
        pass
