"""Reading of the checkpoints of a model: state dicts and their steps, one file at a time.

Files are read by torch's loader of tensors (`weights_only=True`), by safetensors or by
NumPy without pickles: no code in them is run."""

import argparse
import itertools
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dynamics.errors import MissingPackage, TrajectoryError
from dynamics.folders import expand_home
from dynamics.recording.checkpoint_names import (
    HOW,
    steps_in_names,
    tensor_names,
)
from dynamics.settings import SettingsError

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz")
"""Suffixes of the files in a folder that are taken for checkpoints."""

INDEX = ".index.json"
"""End of the name of a file that lists the parts of a checkpoint."""

MODEL_NAMES = (
    "model.safetensors",
    "model.safetensors" + INDEX,
    "pytorch_model.bin",
    "pytorch_model.bin" + INDEX,
    "adapter_model.safetensors",
    "adapter_model.bin",
)
"""Names of the files of weights in a folder such as checkpoint-500. The first one that a
folder contains is read."""

STEP_NAMES = ("global_step", "step", "iteration")
"""Names of the step in a file, beside the weights, in order of preference."""

WHOLE = "all"
"""Value of `state_dict`: all tensors of the file."""

ORDER = "order"
"""Value of `step_from`: the steps are the places of the files."""

StateDict = Mapping[str, torch.Tensor]


class Checkpoint(NamedTuple):
    """The weights of a model after `step` updates."""

    step: int
    state: StateDict
    source: str
    config: Mapping[str, Any]
    """The numbers, strings and flags beside the weights."""


def read_checkpoints(
    paths: Sequence[str | Path],
    state_dict: str | None = None,
    step_from: str | None = None,
    rename: Sequence[str] = (),
) -> Iterator[tuple[Checkpoint, str]]:
    """The checkpoints in files and folders, and where their steps come from, in words.
    Raises TrajectoryError, SettingsError."""
    files = list(itertools.chain.from_iterable(map(_files_of, map(expand_home, paths))))
    if not files:
        raise TrajectoryError(
            f"{', '.join(map(str, paths))}: no checkpoint ({', '.join(SUFFIXES)})"
        )
    names = None
    if step_from == ORDER:
        names = list(range(len(files))), "the order of the files"
    content = load_tensors(files[0])
    series = _series(content, state_dict) if len(files) == 1 else None
    if series is not None:
        steps = _steps_of_series(series, content, step_from, files[0])
        for place, (step, state) in enumerate(zip(steps, series.values(), strict=True)):
            source = f"{files[0]}[{place}]"
            item = Checkpoint(step, _renamed(state, rename), source, {})
            yield item, "the steps in the file"
        return
    if step_from is None:
        names = _steps_in_paths(files)
    for place, file in enumerate(files):
        if place > 0:
            content = load_tensors(file)
        if names is None:
            step, rule = _step_in(content, step_from, file, len(files) == 1)
        else:
            step = names[0][place]
            rule = names[1]
        state = _renamed(_state_dict(content, state_dict, file), rename)
        item = Checkpoint(step, state, str(file), _plain_values(content))
        del content, state  # one checkpoint is in memory at a time
        yield item, rule
        del item


def _files_of(path: Path) -> list[Path]:
    """The checkpoints in a folder, or the file itself. Folders in it with a file of
    weights, such as checkpoint-500, are a checkpoint each, and, if it has no checkpoint
    itself, folders with a number in their names and one file. Raises TrajectoryError."""
    if not path.is_dir():
        if not path.is_file():
            raise TrajectoryError(f"{path}: no such file")
        return [path]
    inner = [folder for folder in sorted(path.iterdir()) if folder.is_dir()]
    usual = [name for folder in (*inner, path) for name in _weights_in(folder)]
    if usual:
        return [file for file in usual if file.parent != path] or usual
    numbered = [folder for folder in inner if re.search(r"\d", folder.name)]
    single = [files[0] for files in map(_saved_in, numbered) if len(files) == 1]
    return _saved_in(path) or single


def _weights_in(folder: Path) -> list[Path]:
    """The file of weights in a folder of one checkpoint, by its usual name."""
    files = (folder / name for name in MODEL_NAMES)
    return [file for file in files if file.is_file()][:1]


def _saved_in(folder: Path) -> list[Path]:
    files = (file for file in folder.iterdir() if file.suffix in SUFFIXES)
    return sorted(file for file in files if file.is_file())


def load_tensors(path: Path) -> Any:
    """The contents of a checkpoint, without running code in it. Raises TrajectoryError,
    MissingPackage."""
    try:
        if path.name.endswith(INDEX):
            return _load_parts(path)
        if path.suffix == ".npz":
            return _load_arrays(path)
        if path.suffix == ".safetensors":
            return _load_safetensors(path)
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except (TrajectoryError, MissingPackage):
        raise
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f"the class {named[1]}" if named else "other objects"
        how = (
            "only tensors, numbers and names are read. If you trust the file, load it"
            " with torch.load(..., weights_only=False) and write its tensors by"
            " torch.save(model.state_dict(), ...)"
        )
        raise TrajectoryError(f"{path}: contains {what}; {how}") from None
    except Exception as error:  # of many classes, for bytes that are no such file
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise TrajectoryError(
            f"{path}: cannot be read, cut short or damaged ({reason})"
        ) from None


def _load_safetensors(path: Path) -> StateDict:
    try:
        from safetensors.torch import load_file
    except ImportError:
        how = "pip install 'training-dynamics[record]'"
        raise MissingPackage(
            f"{path}: reading it needs safetensors; install it by: {how}"
        ) from None
    return load_file(path)


def _load_parts(path: Path) -> StateDict:
    """The tensors of the files that an index lists, which lie beside it."""
    places: dict[str, str] = json.loads(path.read_text("utf-8-sig"))["weight_map"]
    result: dict[str, torch.Tensor] = {}
    for name in sorted(set(places.values())):
        part = path.parent / Path(name).name
        if not part.is_file():
            raise TrajectoryError(f"{path}: its part {name} is missing")
        result |= load_tensors(part)
    missing = sorted(set(places) - set(result))
    if missing:
        raise TrajectoryError(f"{path}: {missing[0]} is missing in its part")
    return {name: result[name] for name in places}


def _load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, as nested mappings by the parts of their names between
    slashes."""
    result: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            *outer, last = name.strip("/").split("/")
            place = result
            for part in outer:
                place = place.setdefault(part, {})
            place[last] = torch.from_numpy(np.array(arrays[name]))
    return result


# ----------------------------------------------------------------------------- contents


def _mapping(content: Any) -> Mapping[Any, Any]:
    """What a part of a checkpoint maps names to; empty for other parts."""
    if isinstance(content, argparse.Namespace):
        content = vars(content)
    return content if isinstance(content, Mapping) else {}


def _plain_values(content: Any) -> dict[str, Any]:
    """The numbers, strings and flags in the mappings of a checkpoint, by their last
    names; those of outer mappings have precedence."""
    result: dict[str, Any] = {}
    for value in _mapping(content).values():
        result |= _plain_values(value)
    plain = (int, float, str, bool)
    items = _mapping(content).items()
    return result | {str(k): value for k, value in items if isinstance(value, plain)}


def _lookup(content: Any, name: str) -> Any:
    """The value at a name in nested mappings, such as meta.iteration; None if there is
    none."""
    mapping = _mapping(content)
    if name in mapping:
        return mapping[name]
    first, _, rest = name.partition(".")
    return _lookup(mapping[first], rest) if rest and first in mapping else None


def _required(content: Any, name: str, field: str, file: Path) -> Any:
    """The value at a name that the user gave as a setting. Raises SettingsError."""
    value = _lookup(content, name)
    if value is None:
        raise SettingsError(field, name, f"a name in {file}: {_names(content)}")
    return value


def _names(content: Any) -> str:
    """The names at the first two levels of a checkpoint, as words of a message."""
    names = []
    for name, value in _mapping(content).items():
        names.append(str(name))
        if not _is_tree(value):
            names += [f"{name}.{inner}" for inner in _mapping(value)]
    return ", ".join(names[:12]) or f"it contains a {type(content).__name__}"


# -------------------------------------------------------------------------- state dicts


def _parts(content: Any) -> dict[str, Any]:
    """What a part of a checkpoint contains, without the states of optimizers."""
    return {
        str(name): value
        for name, value in _mapping(content).items()
        if not re.match(r"opt_|.*optim", str(name), re.IGNORECASE)
        and "param_groups" not in _mapping(value)
    }


def _is_tree(content: Any) -> bool:
    """Whether content is a state dict, or nested mappings of layers that contain tensors
    only. Numbers beside tensors are not part of it."""
    parts = _parts(content).values()
    plain = (int, float, str, bool, type(None))
    branches = [part for part in parts if not isinstance(part, torch.Tensor)]
    if any(isinstance(part, torch.Tensor) for part in parts):
        return all(isinstance(part, plain) or _is_tree(part) for part in branches)
    return bool(branches) and all(map(_is_tree, branches))


def _flat(content: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of nested mappings, by names such as block.query.kernel."""
    result = {}
    for name, part in _parts(content).items():
        if isinstance(part, torch.Tensor):
            result[prefix + name] = part
        else:
            result |= _flat(part, f"{prefix}{name}.")
    return result


def _state_dict(content: Any, key: str | None, file: Path) -> StateDict:
    """The tensors at `key`, "all" for the whole file, or those of the only tree at the
    smallest depth at which there is one. Raises TrajectoryError, SettingsError."""
    if key is not None:
        tree = content if key == WHOLE else _required(content, key, "state_dict", file)
        state = _flat(tree)
        if not state:
            allowed = f"the name of tensors in {file}: {_names(content)}"
            raise SettingsError("state_dict", key, allowed)
        return state
    parts = _parts(content)
    mixed = [name for name, part in parts.items() if not isinstance(part, torch.Tensor)]
    inner = [name for name in mixed if _is_tree(parts[name])]
    if inner and len(mixed) < len(parts):
        allowed = f"one of {', '.join(inner)}, or {WHOLE} for all tensors of {file}"
        raise SettingsError("state_dict", "none", allowed)
    level = {"": content}
    while level:
        trees = {name: item for name, item in level.items() if _is_one_model(item)}
        if len(trees) > 1:
            allowed = f"one of {', '.join(trees)}, which {file} contains"
            raise SettingsError("state_dict", "none", allowed)
        if trees:
            (tree,) = trees.values()
            return _flat(tree)
        level = {
            f"{name}.{inner}".removeprefix("."): item
            for name, part in level.items()
            for inner, item in _parts(part).items()
        }
    raise TrajectoryError(
        f"{file}: contains no state dict (names of parameters and their tensors);"
        f" --state-dict names a part of it: {_names(content)}"
    )


def _is_one_model(content: Any) -> bool:
    """Whether a part of a checkpoint is the tree of one model: it has tensors, or several
    branches that are not all of the same names and shapes, as a model and its average
    are."""
    if not _is_tree(content):
        return False
    parts = _parts(content).values()
    if any(isinstance(part, torch.Tensor) for part in parts):
        return True
    shapes = [
        {name: item.shape for name, item in _flat(part).items()} for part in parts
    ]
    return any(other != shapes[0] for other in shapes)


def _renamed(state: StateDict, rules: Sequence[str]) -> StateDict:
    """A state dict with the names of the original module, changed by rules OLD=NEW."""
    return {new: state[name] for name, new in tensor_names(state, rules).items()}


# ------------------------------------------------------------------------------- series


def _series(content: Any, key: str | None) -> dict[Any, StateDict] | None:
    """The state dicts of a file that contains several: of a mapping by whole numbers, its
    steps, or of a list, by its places in brackets. None if it does not contain several."""
    if key is not None:
        content = _lookup(content, key)
    if isinstance(content, Sequence) and content and all(map(_is_tree, content)):
        return {f"[{place}]": _flat(state) for place, state in enumerate(content)}
    mapping = _mapping(content)
    is_numbered = bool(mapping) and all(isinstance(name, int) for name in mapping)
    if is_numbered and all(map(_is_tree, mapping.values())):
        return {step: _flat(state) for step, state in mapping.items()}
    if key is not None or _is_one_model(content):
        return None
    parts = _parts(content).values()
    several = [item for part in parts if (item := _series(part, None))]
    return several[0] if len(several) == 1 else None


def _steps_of_series(
    series: Mapping[Any, StateDict], content: Any, name: str | None, file: Path
) -> list[int]:
    """The steps of the state dicts in one file: their own, their places, or those in the
    list at `name`. Raises SettingsError."""
    if name == ORDER:
        return list(range(len(series)))
    if name is None:
        if not all(isinstance(step, int) for step in series):
            names = _names(content)
            allowed = f"the name of the list of steps in {file}: {names}; or {ORDER}"
            raise SettingsError("step_from", "none", allowed)
        return [_as_step(step, "a step", file) for step in series]
    values = _required(content, name, "step_from", file)
    count = (
        len(values) if isinstance(values, Sequence) else getattr(values, "shape", ())
    )
    if count not in (len(series), (len(series),)):
        allowed = f"a list of {len(series)} steps, one for each state dict in {file}"
        number = f"{count} numbers" if isinstance(count, int) else "no list"
        raise SettingsError("step_from", f"{number} at {name}", allowed)
    return [_as_step(value, name, file) for value in values]


# -------------------------------------------------------------------------------- steps


def _steps_in_paths(files: Sequence[Path]) -> tuple[list[int], str] | None:
    """The steps in the names of files, or of their folders if the files are named
    alike. Raises SettingsError."""
    stems = {file.stem for file in files}
    in_folders = files[0].name in MODEL_NAMES or (len(stems) == 1 and len(files) > 1)
    names = [file.parent.name if in_folders else file.stem for file in files]
    if len(files) > 1 and not any(re.search(r"\d", name) for name in names):
        return None
    return steps_in_names(names)


def _step_in(
    content: Any, name: str | None, file: Path, is_single: bool
) -> tuple[int, str]:
    """The step in a file, and its name in words: that at `name`, or at a usual name; 0
    for a single file without one. Raises SettingsError."""
    usual = [step for step in STEP_NAMES if step in _mapping(content)]
    if name is None and not usual:
        if is_single:
            return 0, "0, as neither the name nor the file gives one"
        allowed = f"{HOW}; names in {file}: {_names(content)}"
        raise SettingsError("step_from", "none", allowed)
    name = usual[0] if name is None else name
    value = _required(content, name, "step_from", file)
    return _as_step(value, name, file), f"the number {name} in the files"


def _as_step(value: Any, name: str, file: Path) -> int:
    is_scalar = isinstance(value, torch.Tensor) and value.numel() == 1
    number = value.item() if is_scalar else value
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or number % 1 != 0 or not 0 <= number < 2**62:
        what = f"{name} = {value} in {file}"
        raise SettingsError("step_from", what, "the name of a whole number from 0")
    return int(number)
