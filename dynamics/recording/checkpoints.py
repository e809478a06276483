"""Trajectories from checkpoints that are already on the disk
(`dynamics.recording.checkpoint_files`)."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.provenance import identity_of
from dynamics.recording.checkpoint_files import Checkpoint, StateDict, read_checkpoints
from dynamics.recording.model_file import ModelFile, embedding_of
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    TIED,
    ParameterView,
    as_array,
    check_residues,
    near_names,
    state_signature,
    tied_names,
    variable_dims,
)
from dynamics.recording.recorded_network import CONFIG, check_model
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.description import RunDescription, describe_origin, seeds_of

RUNNING = ("running_mean", "running_var")
"""Ends of the names of buffers of torch's normalisation layers."""


def collect_checkpoints(
    paths: Sequence[str | Path],
    embedding: str | ParameterView | None = None,
    *,
    variables: Mapping[str, str | ParameterView] | None = None,
    weights: bool = False,
    modulus: int = 0,
    state_key: str | None = None,
    step_from: str | None = None,
    seed: int = 0,
    model: ModelFile | None = None,
) -> xr.Dataset:
    """A trajectory of one run from checkpoints of a model.

    Parameters
    ----------
    paths : sequence of str or Path
        Folders of checkpoints, checkpoints, or one file with several state dicts.
    embedding : str or ParameterView, optional
        The embedding (token, axis) by its name in the state dict.
    variables : mapping of str to str or ParameterView, optional
        Other tensors, by their names in the trajectory.
    weights : bool
        Take all floating-point tensors too, as variables named ``parameter.NAME``. The
        running means and variances of normalisation layers are named ``buffer.NAME``; a
        state dict does not tell other buffers from parameters. A tensor that has several
        names, such as an embedding that is also the last layer, is taken once, by its
        first name; functions of a model get it by all of them.
    modulus : int
        Modulus N of the addition that the model learns, if its tokens are the numbers
        modulo N, the rows of the embedding; see `record`.
    state_key : str, optional
        Where the state dict lies in a file, such as ``"model"`` or
        ``"state.nets.student"``. Default: the only mapping of names to tensors.
    step_from : str, optional
        Where the step lies in a file, such as ``"epoch"`` or ``"meta.iteration"``; for
        a file of several state dicts, the list of their steps. Default: the number in
        the files' names, or else in their contents, that differs between files.
    seed : int
        Seed of the run in the trajectory.
    model : ModelFile, optional
        Functions of the model. Then all floating-point tensors are taken, the modulus
        and the embedding are those of the model unless they are given, and the
        trajectory contains the source of the file.

    Returns
    -------
    xarray.Dataset
        For `save_trajectory`. It has no losses and no norms.

    Raises
    ------
    SettingsError
        If a name is not in the state dicts.
    TrajectoryError
        If a file cannot be read, steps are missing or equal, or tensors differ in
        shape.

    Examples
    --------
    >>> import torch
    >>> from dynamics import collect_checkpoints
    >>> model = torch.nn.Embedding(5, 2)
    >>> for step in (0, 100, 200):
    ...     torch.save(model.state_dict(), f"model-{step}.pt")
    >>> collect_checkpoints(["."], "weight")["embedding"].shape
    (1, 3, 5, 2)
    """
    checkpoints = read_checkpoints(paths, state_key, step_from)
    _check_alike(checkpoints)
    state = checkpoints[0].state
    tied = _common_ties(checkpoints)
    distinct = {name: tensor for name, tensor in state.items() if name not in tied}
    tensors = distinct if weights or model is not None else {}
    quantities = _quantities(state, tensors, embedding, variables or {}, model)
    if model is not None and "embedding" in quantities:
        modulus = modulus or model.modulus
    settings = RecordedSettings(
        model="checkpoints",
        parameters=sum(tensor.numel() for tensor in distinct.values()),
        signature=state_signature(state),
        recorded=", ".join(quantities),
        modulus=modulus,
    )
    steps = [checkpoint.step for checkpoint in checkpoints]
    every = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    identity = identity_of(settings, 1, seed, every)
    frames = {
        checkpoint.step: _read_frame(checkpoint, quantities)
        for checkpoint in checkpoints
    }
    first = frames[steps[0]]
    view = quantities.get("embedding")
    check_residues(
        modulus,
        view.of if isinstance(view, _ModelEmbedding) else view,
        len(first["embedding"][0]) if "embedding" in first else 0,
    )
    dims = {name: variable_dims(name, first[name].shape[1:]) for name in quantities}
    coords = {
        dim: np.arange(size)
        for name in dims
        for dim, size in zip(dims[name], first[name].shape[1:], strict=True)
    }
    attrs = describe_origin(settings, identity, steps[-1], torch.get_num_threads(), 1)
    attrs["derived"] = "checkpoints"
    if tied:
        attrs[TIED] = json.dumps(tied)
    if model is not None:
        attrs |= model.attributes(modulus)
        attrs[CONFIG] = json.dumps(checkpoints[0].config)
    if steps[0] > 0:
        attrs |= {"branched_at": steps[0], "branch_of": "checkpoints"}
    description = RunDescription(dims, {}, coords, seeds_of(identity), 1.0, 0, attrs)
    _check_finite(checkpoints, frames)
    result = description.dataset(frames, steps[-1], np.array([steps[-1]]), done=True)
    if model is not None:
        check_model(result, model)
    return result


def _common_ties(checkpoints: Sequence[Checkpoint]) -> dict[str, str]:
    """The further names of tensors that all checkpoints contain several times."""
    first, *others = (tied_names(checkpoint.state) for checkpoint in checkpoints)
    return {
        name: tensor
        for name, tensor in first.items()
        if all(other.get(name) == tensor for other in others)
    }


class _ModelEmbedding:
    """Computes the embedding of a checkpoint by the function of a model file."""

    def __init__(self, model: ModelFile) -> None:
        self.model = model

    def of(self, state: StateDict) -> torch.Tensor:
        """(token, axis). Raises SettingsError."""
        return embedding_of(self.model, state)


def missing_steps(trajectory: xr.Dataset) -> list[int]:
    """The steps at which a checkpoint is missing, if at least three in four gaps
    between checkpoints are equal."""
    steps = trajectory["step"].values
    gaps, counts = np.unique(np.diff(steps), return_counts=True)
    if len(gaps) < 2 or counts.max() < 0.75 * counts.sum() or (gaps % gaps[0]).any():
        return []
    return sorted(
        set(range(int(steps[0]), int(steps[-1]), int(gaps[0]))) - set(steps.tolist())
    )


def _quantities(
    state: StateDict,
    tensors: StateDict,
    embedding: str | ParameterView | None,
    variables: Mapping[str, str | ParameterView],
    model: ModelFile | None,
) -> dict[str, ParameterView | _ModelEmbedding]:
    """What is taken of each checkpoint, by the names of the variables: the embedding,
    further variables and, of `tensors`, those that are floating-point. Raises
    SettingsError if it is nothing."""
    views = {} if embedding is None else {"embedding": embedding}
    views |= dict(variables)
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            is_buffer = name.endswith(RUNNING) or _is_mask(tensor)
            views[f"{BUFFER if is_buffer else PARAMETER}{name}"] = name
    if not views:
        raise SettingsError("embedding", "none", near_names("", state))
    result: dict[str, ParameterView | _ModelEmbedding] = {}
    if embedding is None and model is not None and model.embedding is not None:
        result["embedding"] = _ModelEmbedding(model)
    for name, view in views.items():
        result[name] = ParameterView(view) if isinstance(view, str) else view
    return result


def _read_frame(
    checkpoint: Checkpoint, quantities: Mapping[str, ParameterView | _ModelEmbedding]
) -> dict[str, np.ndarray]:
    """The arrays (run, ...) of a checkpoint."""
    tensors = {name: view.of(checkpoint.state) for name, view in quantities.items()}
    return {
        name: as_array(tensor.nan_to_num() if _is_mask(tensor) else tensor)[None]
        for name, tensor in tensors.items()
    }


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a mask that is added to attention scores: 0 and infinite.
    Trajectories contain finite numbers only, so the largest take the place of the
    infinite ones."""
    infinite = tensor.detach().isinf()
    return bool(infinite.any() and (infinite | (tensor == 0)).all())


def _check_alike(checkpoints: Sequence[Checkpoint]) -> None:
    """Raise TrajectoryError if two checkpoints have the same step, or tensors of other
    names or shapes."""
    first = {name: tuple(tensor.shape) for name, tensor in checkpoints[0].state.items()}
    for before, after in itertools.pairwise(checkpoints):
        if before.step == after.step:
            raise TrajectoryError(
                f"step {after.step}: found in {before.source} and in {after.source}"
            )
        shapes = {name: tuple(tensor.shape) for name, tensor in after.state.items()}
        if shapes != first:
            name = next(
                name
                for name in {**first, **shapes}
                if first.get(name) != shapes.get(name)
            )
            other = (
                f"{first.get(name, 'missing')} in {checkpoints[0].source}; is it a checkpoint"
                " of another model?"
            )
            raise TrajectoryError(
                f"{after.source}: {name} is {shapes.get(name, 'missing')}, but {other}"
            )


def _check_finite(
    checkpoints: Sequence[Checkpoint], frames: Mapping[int, Mapping[str, np.ndarray]]
) -> None:
    for checkpoint in checkpoints:
        for name, values in frames[checkpoint.step].items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise TrajectoryError(
                    f"{checkpoint.source}: {name} has a value that is not finite"
                )
