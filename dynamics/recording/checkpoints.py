"""Trajectories from checkpoints that are already on the disk.

Files are read by torch's loader of tensors (`weights_only=True`) or by safetensors: no
code in them is run."""

import argparse
import itertools
import json
import os
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr

from dynamics.errors import MissingPackage, TrajectoryError
from dynamics.provenance import identity_of
from dynamics.recording.model_file import ModelFile, embedding_of
from dynamics.recording.quantities import (
    BUFFER,
    PARAMETER,
    ParameterView,
    as_array,
    check_residues,
    near_names,
    state_signature,
    variable_dims,
)
from dynamics.recording.recorded_network import CONFIG
from dynamics.settings import RecordedSettings, SettingsError
from dynamics.trajectory.description import RunDescription, describe_origin, seeds_of

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""Suffixes of the files in a folder that are taken for checkpoints."""

MODEL_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in the folders checkpoint-500 and so on of a Trainer."""

FOLDER = re.compile(r"checkpoint-\d+")

LABELLED = re.compile(
    r"(?:steps?|iter(?:ation)?s?|epochs?|checkpoint|ckpt|ck)[=_-]?(\d+)(?!.*steps?[=_-]?\d)",
    re.IGNORECASE,
)
"""A number in the name of a file that is named a step, an iteration or an epoch; the
step if there are several."""

STEP_NAMES = ("global_step", "step", "iteration", "iter", "epoch")
"""Usual names of the step in checkpoints; the first one is preferred."""

COMPILED = "_orig_mod."
"""What torch.compile puts before the names of parameters."""

RUNNING = ("running_mean", "running_var")
"""Ends of the names of buffers of torch's normalisation layers."""

StateDict = Mapping[str, torch.Tensor]


class Checkpoint(NamedTuple):
    """The weights of a model after `step` updates."""

    step: int
    state: StateDict
    source: str


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
        state dict does not tell other buffers from parameters.
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
    checkpoints = sorted(
        read_checkpoints(paths, state_key, step_from),
        key=lambda checkpoint: checkpoint.step,
    )
    _check_alike(checkpoints)
    if model is not None:
        weights = True
        has_embedding = embedding is not None or model.embedding is not None
        modulus = modulus or (model.modulus if has_embedding else 0)
    quantities: dict[str, ParameterView | _ModelEmbedding] = dict(
        _named_views(checkpoints[0].state, embedding, variables or {}, weights)
    )
    if model is not None and model.embedding is not None and embedding is None:
        quantities = {"embedding": _ModelEmbedding(model), **quantities}
    settings = RecordedSettings(
        model="checkpoints",
        parameters=sum(tensor.numel() for tensor in checkpoints[0].state.values()),
        signature=state_signature(checkpoints[0].state),
        recorded=", ".join(quantities),
        modulus=modulus,
    )
    steps = [checkpoint.step for checkpoint in checkpoints]
    every = int(np.gcd.reduce(np.diff(steps))) if len(steps) > 1 else 1
    identity = identity_of(settings, 1, seed, every)
    frames = {
        checkpoint.step: {
            name: as_array(_finite_mask(view.of(checkpoint.state)))[None]
            for name, view in quantities.items()
        }
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
    if model is not None:
        attrs |= model.attributes(modulus)
        attrs[CONFIG] = json.dumps(
            plain_values(load_tensors(checkpoint_files(paths)[0]))
        )
    if steps[0] > 0:
        attrs |= {"branched_at": steps[0], "branch_of": "checkpoints"}
    description = RunDescription(dims, {}, coords, seeds_of(identity), 1.0, 0, attrs)
    _check_finite(checkpoints, frames)
    return description.dataset(frames, steps[-1], np.array([steps[-1]]), done=True)


class _ModelEmbedding:
    """Computes the embedding of a checkpoint by the function of a model file."""

    def __init__(self, model: ModelFile) -> None:
        self.model = model

    def of(self, state: StateDict) -> torch.Tensor:
        """(token, axis). Raises SettingsError."""
        return embedding_of(self.model, state)


def plain_values(content: Any) -> dict[str, Any]:
    """The numbers, strings and flags in the mappings of a checkpoint, by their last
    names; those of outer mappings have precedence."""
    if isinstance(content, argparse.Namespace):
        content = vars(content)
    if not isinstance(content, Mapping):
        return {}
    result: dict[str, Any] = {}
    for value in content.values():
        if not isinstance(value, torch.Tensor):
            result |= plain_values(value)
    plain = (int, float, str, bool)
    return result | {
        str(name): value for name, value in content.items() if isinstance(value, plain)
    }


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


# ------------------------------------------------------------------------------ reading


def read_checkpoints(
    paths: Sequence[str | Path],
    state_key: str | None = None,
    step_from: str | None = None,
) -> list[Checkpoint]:
    """The checkpoints in files and folders, in the order of the files. Raises
    TrajectoryError, SettingsError."""
    files = checkpoint_files(paths)
    if len(files) == 1:
        return _read_series(files[0], state_key, step_from)
    contents = [load_tensors(file) for file in files]
    steps = _steps_of(files, contents, step_from)
    states = [
        _state_dict(content, state_key, file)
        for content, file in zip(contents, files, strict=True)
    ]
    return [
        Checkpoint(step, state, str(file))
        for step, state, file in zip(steps, states, files, strict=True)
    ]


def checkpoint_files(paths: Sequence[str | Path]) -> list[Path]:
    """The checkpoint files in files and folders. Raises TrajectoryError."""
    files = list(itertools.chain.from_iterable(_files_of(Path(path)) for path in paths))
    if not files:
        raise TrajectoryError(
            f"{', '.join(map(str, paths))}: no checkpoint ({', '.join(SUFFIXES)})"
        )
    return files


def _files_of(path: Path) -> list[Path]:
    """The checkpoints in a folder, or the file itself. The folders of a Trainer,
    checkpoint-500 and so on, contain one checkpoint each."""
    if not path.is_dir():
        if not path.is_file():
            raise TrajectoryError(f"{path}: no such file")
        return [path]
    folders = [path / name for name in os.listdir(path) if FOLDER.fullmatch(name)]
    if FOLDER.fullmatch(path.name):
        folders = [path]
    saved = [
        next((folder / name for name in MODEL_NAMES if (folder / name).is_file()), None)
        for folder in folders
    ]
    if any(saved):
        return sorted(file for file in saved if file)
    return sorted(
        file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file()
    )


def load_tensors(path: Path) -> Any:
    """The contents of a checkpoint file, without running code in it. Raises
    TrajectoryError, MissingPackage."""
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError:
            how = "pip install 'training-dynamics[record]'"
            raise MissingPackage(
                f"{path}: reading it needs safetensors; install it by: {how}"
            ) from None
        try:
            return load_file(path)
        except (
            Exception
        ) as error:  # of its own class, which is not part of its interface
            raise TrajectoryError(
                f"{path}: cannot be read ({_first_line(error)})"
            ) from None
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"the class {named[1]}" if named else "other objects"
        how = (
            "only tensors, numbers and names are read. If you trust the file, load it"
            " with torch.load(..., weights_only=False) and write its tensors by"
            " torch.save(model.state_dict(), ...)"
        )
        raise TrajectoryError(f"{path}: contains {what}; {how}") from None
    except Exception as error:  # torch parses bytes that are no pickle, too
        raise TrajectoryError(
            f"{path}: cannot be read, cut short or damaged ({_first_line(error)})"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def _is_state_dict(value: Any) -> bool:
    """Whether a value maps names to tensors, at least one of them."""
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) for name in value
    ):
        return False
    tensors = [isinstance(item, torch.Tensor) for item in value.values()]
    return any(tensors) and sum(tensors) >= len(tensors) / 2


def _state_dict(content: Any, key: str | None, file: Path) -> StateDict:
    """The state dict in the contents of a file. Raises TrajectoryError,
    SettingsError."""
    if key is not None:
        state = _lookup(content, key)
        if state is None:
            raise SettingsError("state_key", key, _keys_of(content, file))
        content = state
    states = _nested_state_dicts(content)
    if not states:
        raise TrajectoryError(
            f"{file}: contains no state dict (names of parameters and their tensors)"
        )
    if len(states) > 1:
        allowed = f"one of {', '.join(states)}, which {file} contains"
        raise SettingsError("state_key", "none", allowed)
    (state,) = states.values()
    prefix = COMPILED if all(name.startswith(COMPILED) for name in state) else ""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if isinstance(tensor, torch.Tensor)
    }


def _nested_state_dicts(content: Any) -> dict[str, StateDict]:
    """The state dicts in nested mappings at the smallest depth at which there are any,
    by their names, such as state.nets.student; without those of optimizers."""
    level = {"": content}
    while level:
        states = {name: item for name, item in level.items() if _is_state_dict(item)}
        if states:
            return states
        level = {
            f"{name}.{inner}".removeprefix("."): item
            for name, mapping in level.items()
            if isinstance(mapping, Mapping)
            for inner, item in mapping.items()
            if "optim" not in str(inner).lower()
        }
    return {}


def _lookup(content: Any, name: str) -> Any:
    """The value at a name in nested mappings, such as meta.iteration; None if there is
    none."""
    if isinstance(content, argparse.Namespace):
        content = vars(content)
    if not isinstance(content, Mapping):
        return None
    if name in content:
        return content[name]
    first, _, rest = name.partition(".")
    return _lookup(content[first], rest) if rest and first in content else None


def _keys_of(content: Any, file: Path) -> str:
    if not isinstance(content, Mapping):
        return f"nothing: {file} contains a {type(content).__name__}"
    names = list(itertools.islice(_whole_numbers(content), 6))
    names += [str(name) for name in content if str(name) not in names]
    return f"a name in {file}: {', '.join(names[:12])}"


# ------------------------------------------------------------------------------- steps


def _steps_of(
    files: Sequence[Path], contents: Sequence[Any], name: str | None
) -> list[int]:
    """The steps of checkpoints: the numbers at `name` in the contents; or those in the
    names of the files; or those at the only name, or at a usual one, whose numbers
    differ between the files. Raises SettingsError."""
    if name is None:
        steps = _steps_from_names(files)
        if steps is not None:
            return steps
        name = _differing_number([_whole_numbers(content) for content in contents])
    if name is None:
        allowed = (
            "the name of the step in the files, as their names have no single number"
            f" that differs between them; {_keys_of(contents[0], files[0])}"
        )
        raise SettingsError("step_from", "none", allowed)
    return [
        _step_at(content, name, file)
        for content, file in zip(contents, files, strict=True)
    ]


def _step_at(content: Any, name: str, file: Path) -> int:
    """The step that a file contains. Raises SettingsError."""
    value = _lookup(content, name)
    if value is None:
        raise SettingsError("step_from", name, _keys_of(content, file))
    return _as_step(value, name, file)


def _whole_numbers(content: Any) -> dict[str, int]:
    """The whole numbers in nested mappings by their names, without those in the states
    of optimizers."""
    if isinstance(content, argparse.Namespace):
        content = vars(content)
    if not isinstance(content, Mapping):
        return {}
    result = {}
    for name, value in content.items():
        if isinstance(value, int) and not isinstance(value, bool):
            result[str(name)] = value
        elif "optim" not in str(name).lower():
            inner = _whole_numbers(value)
            result |= {f"{name}.{key}": number for key, number in inner.items()}
    return result


def _differing_number(numbers: Sequence[Mapping[str, int]]) -> str | None:
    """The only name whose numbers differ between all files, or a usual name of the step
    among several."""
    names = [
        name
        for name in numbers[0]
        if len({row.get(name) for row in numbers}) == len(numbers)
    ]
    if len(names) == 1:
        return names[0]
    usual = [
        name
        for last in STEP_NAMES
        for name in names
        if name.rpartition(".")[2].lower() == last
    ]
    return usual[0] if usual else None


def _as_step(value: Any, name: str, file: Path) -> int:
    number = (
        value.item()
        if isinstance(value, torch.Tensor) and value.numel() == 1
        else value
    )
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or number != int(number)
        or number < 0
    ):
        raise SettingsError(
            "step_from",
            f"{name} = {value} in {file}",
            "the name of a whole number from 0",
        )
    return int(number)


def _steps_from_names(files: Sequence[Path]) -> list[int] | None:
    """The number in the names of files that is named a step, or else the only one that
    differs between them; None if there is none."""
    names = [
        file.parent.name if file.name in MODEL_NAMES else file.stem for file in files
    ]
    labelled = [LABELLED.search(name) for name in names]
    if len(files) == 1 or all(labelled):
        steps = [int(match[1]) for match in labelled if match]
        if len(set(steps)) == len(files):
            return steps
    numbers = [[int(digits) for digits in re.findall(r"\d+", name)] for name in names]
    if len(files) == 1 or len({len(row) for row in numbers}) > 1:
        return None
    differing = [
        column for column in zip(*numbers, strict=True) if len(set(column)) > 1
    ]
    return list(differing[0]) if len(differing) == 1 else None


def _read_series(
    file: Path, state_key: str | None, step_from: str | None
) -> list[Checkpoint]:
    """The checkpoints in one file with several state dicts, or the only one in it."""
    content = load_tensors(file)
    series = _find_series(content, state_key, file)
    if series is None:
        state = _state_dict(content, state_key, file)
        if step_from is None:
            (step,) = _steps_from_names([file]) or (0,)
        else:
            step = _step_at(content, step_from, file)
        return [Checkpoint(step, state, str(file))]
    states, steps = list(series.values()), list(series)
    if step_from is not None:
        values = _lookup(content, step_from)
        if values is None:
            raise SettingsError("step_from", step_from, _keys_of(content, file))
        if len(values) != len(states):
            raise SettingsError(
                "step_from",
                f"{len(values)} numbers in {step_from}",
                f"{len(states)}, the state dicts",
            )
        steps = [_as_step(value, step_from, file) for value in values]
    elif not all(isinstance(step, int) for step in steps):
        raise SettingsError(
            "step_from", "none", f"the list of steps; {_keys_of(content, file)}"
        )
    return [
        Checkpoint(int(step), state, f"{file}[{place}]")
        for place, (step, state) in enumerate(zip(steps, states, strict=True))
    ]


def _find_series(
    content: Any, key: str | None, file: Path
) -> dict[Any, StateDict] | None:
    """The state dicts of a file that contains several, by step, or by their index as a
    string if the file gives no steps. None if it does not contain several."""
    if key is not None:
        content = _lookup(content, key)
    if (
        isinstance(content, Sequence)
        and len(content)
        and all(map(_is_state_dict, content))
    ):
        return {str(place): state for place, state in enumerate(content)}
    if (
        isinstance(content, Mapping)
        and content
        and all(map(_is_state_dict, content.values()))
    ):
        steps = [int(name) if str(name).isdigit() else name for name in content]
        if all(isinstance(step, int) for step in steps):
            return dict(zip(steps, content.values(), strict=True))
    if key is None and isinstance(content, Mapping):
        nested = [
            series
            for series in (
                _find_series(value, None, file) for value in content.values()
            )
            if series is not None
        ]
        if len(nested) == 1:
            return nested[0]
    return None


# ------------------------------------------------------------------------------- checks


def _named_views(
    state: StateDict,
    embedding: str | ParameterView | None,
    variables: Mapping[str, str | ParameterView],
    weights: bool,
) -> dict[str, ParameterView]:
    chosen = {} if embedding is None else {"embedding": embedding}
    chosen |= dict(variables)
    if weights:
        floats = [name for name, tensor in state.items() if tensor.is_floating_point()]
        for name in floats:
            is_buffer = name.endswith(RUNNING) or _is_mask(state[name])
            chosen[f"{BUFFER if is_buffer else PARAMETER}{name}"] = name
    if not chosen:
        raise SettingsError("embedding", "none", near_names("", state))
    return {
        name: ParameterView(view) if isinstance(view, str) else view
        for name, view in chosen.items()
    }


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a mask that is added to attention scores: 0 and infinite."""
    infinite = tensor.detach().isinf()
    return bool(infinite.any() and (infinite | (tensor == 0)).all())


def _finite_mask(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; a mask with the largest finite numbers in place of infinite ones, as
    trajectories contain finite numbers only."""
    return tensor.nan_to_num() if _is_mask(tensor) else tensor


def _check_alike(checkpoints: Iterable[Checkpoint]) -> None:
    """Raise TrajectoryError if two checkpoints have the same step, or tensors of other
    names or shapes."""
    checkpoints = list(checkpoints)
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
