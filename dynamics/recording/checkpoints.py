"""Trajectories from checkpoints that are already on the disk
(`dynamics.recording.checkpoint_files`)."""

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from dynamics.errors import TrajectoryError
from dynamics.recording.checkpoint_files import Checkpoint, StateDict, read_checkpoints
from dynamics.recording.imported_trajectory import imported_trajectory
from dynamics.recording.model_file import ModelFile, embedding_of
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    TIED,
    ParameterView,
    as_array,
    check_kind,
    check_residues,
    dims_and_coords,
    near_names,
    parameter_view,
    state_signature,
    tied_names,
)
from dynamics.recording.recorded_network import CONFIG, check_model
from dynamics.settings import RecordedSettings, SettingsError

RUNNING = ("running_mean", "running_var")
"""Ends of the names of buffers of torch's normalisation layers."""


def collect_checkpoints(
    paths: Sequence[str | Path],
    embedding: str | ParameterView | None = None,
    *,
    variables: Mapping[str, str | ParameterView] | None = None,
    weights: bool = False,
    modulus: int | None = None,
    state_dict: str | None = None,
    step_from: str | None = None,
    rename: Sequence[str] = (),
    seed: int = 0,
    model: ModelFile | None = None,
    log: Callable[[str], Any] = lambda line: None,
) -> xr.Dataset:
    """A trajectory of one run from checkpoints of a model.

    Parameters
    ----------
    paths : sequence of str or Path
        Folders of checkpoints, checkpoints, or one file with several state dicts. A
        checkpoint is a file of torch, safetensors or NumPy (.npz, with names such as
        ``params/Dense_0/kernel``), the index of a checkpoint in several files, or a
        folder with a file such as ``model.safetensors``.
    embedding : str or ParameterView, optional
        The embedding (token, axis), floating-point, by its name in the state dict.
    variables : mapping of str to str or ParameterView, optional
        Other tensors, by their names in the trajectory. Integers are recorded as they
        are, without the scales of a quantized model.
    weights : bool
        Take all floating-point tensors too, and no integers, as variables named
        ``parameter.NAME``. The running means and variances of normalisation layers are named ``buffer.NAME``; a
        state dict does not tell other buffers from parameters. A tensor that has several
        names, such as an embedding that is also the last layer, is taken once, by its
        first name; functions of a model get it by all of them.
    modulus : int, optional
        Modulus N of the addition that the model learns, if its tokens are the numbers
        modulo N, the rows of the embedding; 0 for no modulus; see `record`. Default:
        that of the model, or 0.
    state_dict : str, optional
        Where the state dict lies in a file, such as ``"model"`` or
        ``"state.nets.student"``; ``"all"`` for all tensors of the file. Default: the only
        mapping of names to tensors.
    step_from : str, optional
        Where the step lies in a file, such as ``"epoch"`` or ``"meta.iteration"``; for
        a file of several state dicts, the list of their steps; ``"order"`` for the
        places of the files. Default: the number after a word such as ``step`` in the
        names, or the only one in which they differ; for names without numbers,
        ``global_step``, ``step`` or ``iteration`` in the files.
    rename : sequence of str
        Rules ``OLD=NEW``: tensors whose names begin with OLD begin with NEW. Names of
        wrappers (``_orig_mod``, ``module`` of all names) are removed before.
    seed : int
        Seed of the run in the trajectory.
    model : ModelFile, optional
        Functions of the model. Then all floating-point tensors are taken, the modulus
        and the embedding are those of the model unless they are given, and the
        trajectory contains the source of the file.
    log : callable, optional
        Called with a line of text for each checkpoint: the file, its step and its number
        of tensors; and for tensors that `weights` leaves out.

    Returns
    -------
    xarray.Dataset
        For `save_trajectory`. It has no losses and no norms.

    Raises
    ------
    SettingsError
        If a name is not in the state dicts, a tensor is complex, sparse or quantized, or
        a step or a state dict can be understood in several ways.
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
    frames: dict[int, dict[str, np.ndarray]] = {}
    sources: dict[int, str] = {}
    first: _Description | None = None
    tied: dict[str, str] = {}
    for checkpoint, rule in read_checkpoints(paths, state_dict, step_from, rename):
        step, state, source, config = checkpoint
        ties = tied_names(state)
        if first is None:
            first = _Description(source, _shapes(state), state_signature(state), config)
            tied = ties
            quantities = _quantities(
                state,
                state if weights or model is not None else {},
                embedding,
                variables or {},
                model,
            )
            left_out = [name for name in state if not state[name].is_floating_point()]
            log(f"steps       {rule}\n{'step':>12}  tensors  file")
        log(f"{step:12}  {len(state):7}  {source}")
        if step in sources:
            raise TrajectoryError(
                f"step {step}: found in {sources[step]} and in {source}"
            )
        _check_alike(first, source, _shapes(state))
        tied = {name: of for name, of in tied.items() if ties.get(name) == of}
        frames[step] = _read_frame(checkpoint, quantities)
        sources[step] = source
        del checkpoint, state  # one checkpoint is in memory at a time
    assert first is not None  # there is a checkpoint, or an error
    if left_out and (weights or model is not None):
        some = ", ".join(left_out[:5]) + (", ..." if len(left_out) > 5 else "")
        log(f"left out    {len(left_out)} tensors that are not floating-point: {some}")
    for name in tied:
        if quantities.pop(f"{PARAMETER}{name}", None) is not None:
            for frame in frames.values():
                del frame[f"{PARAMETER}{name}"]
    if modulus is None:
        modulus = 0
        if model is not None and "embedding" in quantities:
            modulus = model.modulus
    distinct = {name: shape for name, shape in first.shapes.items() if name not in tied}
    settings = RecordedSettings(
        model="checkpoints",
        parameters=sum(map(math.prod, distinct.values())),
        signature=first.signature,
        recorded=", ".join(quantities),
        modulus=modulus,
    )
    arrays = next(iter(frames.values()))
    check_residues(
        modulus,
        embedding or quantities.get("embedding"),
        len(arrays["embedding"][0]) if "embedding" in arrays else 0,
    )
    dims, coords = dims_and_coords(
        {name: arrays[name].shape[1:] for name in quantities}
    )
    attributes = {TIED: json.dumps(tied)} if tied else {}
    if model is not None:
        attributes |= model.attributes(modulus) | {CONFIG: json.dumps(first.config)}
    result = imported_trajectory(
        frames, dims, coords, settings, np.array([seed]), "checkpoints", attributes
    )
    if model is not None:
        check_model(result, model)
    return result


class _Description(NamedTuple):
    """What a checkpoint contains, without its tensors."""

    source: str
    shapes: dict[str, tuple[int, ...]]
    signature: str
    config: Mapping[str, Any]


def _shapes(state: StateDict) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


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
) -> dict[str, Callable[[StateDict], torch.Tensor]]:
    """Functions that take variables from a state dict, by their names: the embedding,
    further variables and, of `tensors`, those that are floating-point. Raises
    SettingsError if there are none, or a tensor is complex."""
    views = {} if embedding is None else {"embedding": embedding}
    views |= dict(variables)
    for name, tensor in tensors.items():
        if tensor.is_complex():
            allowed = "real tensors, saved for example by torch.view_as_real"
            raise SettingsError("weights", f"{name} of {tensor.dtype}", allowed)
        if tensor.is_floating_point():
            is_buffer = name.endswith(RUNNING) or _is_mask(tensor)
            views[f"{BUFFER if is_buffer else PARAMETER}{name}"] = name
    if not views:
        raise SettingsError("embedding", "none", near_names("", state))
    result: dict[str, Callable[[StateDict], torch.Tensor]] = {}
    if embedding is None and model is not None and model.embedding is not None:
        result["embedding"] = functools.partial(embedding_of, model)
    for name, view in views.items():
        result[name] = parameter_view(view).of
    return result


def _read_frame(
    checkpoint: Checkpoint,
    quantities: Mapping[str, Callable[[StateDict], torch.Tensor]],
) -> dict[str, np.ndarray]:
    """The arrays (run, ...) of a checkpoint. Raises TrajectoryError."""
    frame = {}
    for name, quantity in quantities.items():
        tensor = quantity(checkpoint.state)
        check_kind(name, tensor, f" in {checkpoint.source}")
        values = as_array(tensor.nan_to_num() if _is_mask(tensor) else tensor)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise TrajectoryError(
                f"{checkpoint.source}: {name} has a value that is not finite"
            )
        frame[name] = values[None]
    return frame


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a mask that is added to attention scores: 0 and infinite.
    Trajectories contain finite numbers only, so the largest take the place of the
    infinite ones."""
    infinite = tensor.detach().isinf()
    return bool(infinite.any() and (infinite | (tensor == 0)).all())


def _check_alike(
    first: _Description, source: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise TrajectoryError if a checkpoint has tensors of other names or shapes than the
    first one."""
    for name in {**first.shapes, **shapes}:
        here, there = (found.get(name, "missing") for found in (shapes, first.shapes))
        if here != there:
            raise TrajectoryError(
                f"{source}: {name} is {here}, but {there} in {first.source}; is it a"
                " checkpoint of another model? --rename OLD=NEW changes names"
            )
