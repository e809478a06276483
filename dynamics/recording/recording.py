"""Recording a model while its own loop trains it."""

import contextlib
import dataclasses
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from dynamics.errors import (
    Interrupted,
    RecordingError,
    ReportedError,
    UnrestoredRecording,
)
from dynamics.loop import deferred_signals
from dynamics.recording.embedding_gradient import GRADIENT, EmbeddingGradient
from dynamics.recording.metrics import (
    METRICS,
    Measured,
    Metrics,
    copy_of,
    shared_splits,
)
from dynamics.recording.model_recorder import (
    RESTART_STATE,
    ModelRecorder,
    Position,
    padded,
)
from dynamics.recording.moments import SecondMoments
from dynamics.recording.observed_training import ObservedTraining
from dynamics.recording.processes import process_count
from dynamics.recording.quantities import (
    PARAMETER,
    Quantity,
    as_array,
    dims_and_coords,
    read_quantities,
)
from dynamics.recording.state_bytes import state_from_bytes, state_to_bytes
from dynamics.recording.training_copies import training_copies
from dynamics.recording.training_state import as_optimizers, group_numbers
from dynamics.recording.update_norms import ModelLayers, UpdateNorms
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.reader import last_step_of, unfinished_files
from dynamics.trajectory.schema import (
    DEFINITIONS,
    INCOMPLETE_SINCE,
    NORM_VARIABLES,
    NOT_FOLLOWED,
    must_be_finite,
)

GROUPS = "groups"
"""Name in a restart state of the settings with which the optimizers were built."""

NO_RESTORE = (
    "restore() cannot continue a training of several processes; restore your own"
    " checkpoints and record with overwrite=True"
)


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
        settings: RecordedSettings,
        training: ObservedTraining,
        layers: ModelLayers,
        quantities: Mapping[str, Quantity],
        moments: SecondMoments | None,
        gradient: EmbeddingGradient | None,
        metrics: Metrics,
        recorder: ModelRecorder,
        definitions: Mapping[str, str],
    ) -> None:
        self.path = recorder.path
        self.settings = settings
        self.training = training
        self.layers = layers
        self.quantities = quantities
        self.moments = moments
        self.metrics = metrics
        self.recorder = recorder
        self.every = recorder.schedule.every
        self.gradient = gradient
        self.definitions = definitions
        """By the name of an argument of `record`, what it selects."""
        self._group_numbers = group_numbers(training.optimizers)
        self.diverged_at: int | None = None
        self.not_followed: list[str] = []
        """What of the training could not be recorded, in words."""
        self._unsaid: list[str] = []
        self._noted: set[tuple[str, str]] = set()
        self._ends_early = False  # a variable cannot be read any longer
        self._look_again = False  # optimizers have other parameters than before
        self._times: dict[int, float] = {}  # by step
        self._first: dict[str, np.ndarray] | None = None  # step 0, until it is complete
        self._evaluated: Mapping[str, Any] | None = None  # until it is in that frame
        self._last: dict[str, np.ndarray] = {}  # the last frame
        self._last_step = -1
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
                self.training.running,
            )
            held.callback(self.norms.remove)
            if not self._must_restore:
                self._read_beginning()
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
        self.training.keep_settings()
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

    def _close_due_part(self, updates: int) -> None:
        """Write a part or keep a restart state if one is due at this update."""
        if not (self._has_begun and self._is_recording):
            return
        restart_every = self.recorder.schedule.restart_every
        if updates % max(1, restart_every):
            return
        if self._received or self.recorder.part_is_due():
            self.recorder.close_part(Position.at(updates), self._observer)
        elif restart_every and updates not in self.recorder.states:
            self.recorder.keep_state(Position.at(updates), self._observer)

    def _record_due_frames(self, call: _Call) -> None:
        updates = call.updates
        if self._first is not None:
            if updates > 0 or call.loss is not None or call.accuracy is not None:
                self._measure_beginning(call.loss, call.accuracy)
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
        metrics = self.metrics.read(call.loss, call.accuracy, self.metrics.evaluate())
        self._add_frame(call.updates, arrays | metrics | self._read_norms())

    def _keep_gradient(self, optimizer: Any, updates: int) -> None:
        """Keep the gradient of the embedding that the first update after a frame
        uses."""
        if self.gradient is not None and updates == max(0, self._last_step):
            self.gradient.keep(optimizer)

    def _next_frame(self) -> int:
        return (max(self._last_step, 0) // self.every + 1) * self.every

    def _read_beginning(self) -> None:
        self._look_at_model()
        self._first, self._evaluated = self._read_arrays(), self.metrics.evaluate()

    def _measure_beginning(self, loss: Measured, accuracy: Measured) -> None:
        """Add the metrics to the frame of step 0, unless it has them."""
        if self._first is not None and self._evaluated is not None:
            self._first |= self.metrics.read(loss, accuracy, self._evaluated)
            self._evaluated = None

    def _complete_first_frame(self) -> None:
        """Record the frame of step 0, whose gradient is that of the first update."""
        assert self._first is not None
        norms = self._read_norms()
        norms["update_norm"] = np.zeros_like(norms["update_norm"])
        first, self._first = self._first | norms, None
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
        is_moving = np.isfinite(frame["update_norm"]).all()
        return "" if is_moving else self.layers.not_finite()

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
            new = self.layers.unknown()
            self._note_names("the values", new, f"the model has {since}")
            if new and INCOMPLETE_SINCE not in self.recorder.description.attrs:
                self.recorder.add_attributes(**{INCOMPLETE_SINCE: self.norms.updates})

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
        self.recorder.add_attributes(**{NOT_FOLLOWED: "; ".join(self.not_followed)})
        self.recorder.complete = False

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
        training = self.training
        with training.undisturbed(training.calls_user_code) as restore:
            tensors = read_quantities(
                self.quantities, training.model, training.tensors, restore
            )
            return {name: as_array(tensor) for name, tensor in tensors.items()}

    def _read_norms(self) -> dict[str, np.ndarray]:
        return {
            "gradient_norm": self.norms.gradient,
            "update_norm": self.norms.update,
        }

    def _begin(self, frame: Mapping[str, np.ndarray]) -> None:
        """Set the description of the run; its variables are known once the first frame
        has been read."""
        shapes = {name: frame[name].shape for name in self.quantities}
        dims, coords = dims_and_coords(shapes, frame)
        coords["layer"] = np.array(self.layers.names)
        coords["split"] = np.array(shared_splits(self.metrics.splits or {}))
        for name in frame:
            if name not in dims:
                inner = "split" if name in METRICS else "layer"
                is_array = name in (*METRICS, *NORM_VARIABLES)
                dims[name] = (inner,) if is_array else ()
        description = dataclasses.replace(
            self.recorder.description, dims=dims, coords=coords, times=self._times
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
            DEFINITIONS: dict(self.definitions),
            GROUPS: self._group_numbers,
        }
        if self.gradient is not None:
            state[GRADIENT] = self.gradient.last
        data = padded(state_to_bytes(state), self._state_bytes)
        self._state_bytes = len(data)
        return {"step": np.array(position.step), RESTART_STATE: data[None]}

    def _finish(self) -> None:
        updates, call = self.norms.updates, self._latest_call
        if self._first is not None:
            self._measure_beginning(None, None)
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
        if self._calls_without_update and not updates:
            self._note(
                f"{self._calls_without_update} calls of step, but no update of the"
                " optimizer was seen: pass the optimizer that is stepped"
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
                self._read_beginning()
            return 0
        if self.recorder.has_diverged():
            raise RecordingError(
                f"{self.path}: this run has diverged and cannot be continued;"
                " overwrite=True replaces it"
            )
        state = state_from_bytes(arrays[RESTART_STATE][0])
        for name, before in state.get(DEFINITIONS, {}).items():
            if (now := self.definitions.get(name, "none")) != before:
                allowed = f"as in the frames before: {before}"
                raise SettingsError(name, now, allowed)
        self._check_groups(state.get(GROUPS, []))
        self.training.restore(state)
        self._last_step = state["last_step"]
        self._first = None
        self._must_restore = False
        updates = state["updates"]
        time = state.get("time", self.recorder.description.time_step * updates)
        self.norms.continue_from(updates, time)
        for text in state.get(NOT_FOLLOWED, []):
            self._note(text)
        self._unsaid = []
        if self.gradient is not None:
            self.gradient.last = state[GRADIENT].to(self.gradient.last.device)
        return updates

    def _check_groups(self, before: Sequence[Mapping[str, Any]]) -> None:
        """Raise SettingsError if the optimizers were built with other settings than
        those of the restart state, which would replace them."""
        for then, now in zip(before, self._group_numbers, strict=False):
            differing = [
                name for name in then if now.get(name, then[name]) != then[name]
            ]
            if differing:
                found, allowed = (
                    ", ".join(f"{name}={group[name]}" for name in differing)
                    for group in (now, then)
                )
                words = f"{allowed}, as before; settings can be changed after restore()"
                raise SettingsError("optimizer", found, words)

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
