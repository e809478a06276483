"""Reading of the checkpoints of a model: state dicts and their steps.

Files are read by torch's loader of tensors (`weights_only=True`) or by safetensors: no
code in them is run."""

import argparse
import itertools
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dynamics.errors import MissingPackage, TrajectoryError
from dynamics.settings import SettingsError

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""Suffixes of the files in a folder that are taken for checkpoints."""

MODEL_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Names of the files of weights in a folder of a Trainer, such as checkpoint-500."""

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
    state_key: str | None = None,
    step_from: str | None = None,
) -> list[Checkpoint]:
    """The checkpoints in files and folders, in the order of their steps. Raises
    TrajectoryError, SettingsError."""
    files = list(itertools.chain.from_iterable(_files_of(Path(path)) for path in paths))
    if not files:
        raise TrajectoryError(
            f"{', '.join(map(str, paths))}: no checkpoint ({', '.join(SUFFIXES)})"
        )
    contents = [load_tensors(file) for file in files]
    config = _plain_values(contents[0])
    series = None
    if len(files) == 1:
        series = _find_series(contents[0], state_key)
    if series is not None:
        steps = _steps_of_series(list(series), contents[0], step_from, files[0])
        states = list(series.values())
        sources = [f"{files[0]}[{place}]" for place in range(len(states))]
    else:
        steps = _steps_of(files, contents, step_from)
        states = [
            _state_dict(content, state_key, file)
            for content, file in zip(contents, files, strict=True)
        ]
        sources = list(map(str, files))
    checkpoints = [
        Checkpoint(*item, config) for item in zip(steps, states, sources, strict=True)
    ]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.step)


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
    saved = [folder / name for folder in folders for name in MODEL_NAMES]
    first = {file.parent: file for file in reversed(saved) if file.is_file()}
    if first:
        return sorted(first.values())
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
        except Exception as error:  # of a class that is not part of its interface
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


def _whole_numbers(content: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers in nested mappings with their names, without those in the
    states of optimizers."""
    for name, value in _mapping(content).items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
        elif "optim" not in str(name).lower():
            yield from _whole_numbers(value, f"{prefix}{name}.")


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
        raise SettingsError(field, name, _names_in(content, file))
    return value


def _names_in(content: Any, file: Path) -> str:
    """The names in a checkpoint, as words of an error message."""
    if not isinstance(content, Mapping):
        return f"nothing: {file} contains a {type(content).__name__}"
    names = [name for name, _ in itertools.islice(_whole_numbers(content), 6)]
    names += [str(name) for name in content if str(name) not in names]
    return f"a name in {file}: {', '.join(names[:12])}"


# -------------------------------------------------------------------------- state dicts


def _is_state_dict(value: Any) -> bool:
    """Whether a value maps names to tensors, at least half of them."""
    if not isinstance(value, Mapping):
        return False
    tensors = [isinstance(item, torch.Tensor) for item in value.values()]
    names = all(isinstance(name, str) for name in value)
    return names and any(tensors) and sum(tensors) >= len(tensors) / 2


def _parts(content: Any) -> dict[str, Any]:
    """What a part of a checkpoint contains, without the states of optimizers."""
    items = _mapping(content).items()
    return {str(k): value for k, value in items if "optim" not in str(k).lower()}


def _is_tree(content: Any) -> bool:
    """Whether content is a state dict, or nested mappings of layers that contain tensors
    only."""
    if _is_state_dict(content):
        return True
    parts = _parts(content).values()
    return bool(parts) and all(
        isinstance(p, torch.Tensor) or _is_tree(p) for p in parts
    )


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
    """The state dict in the contents of a file; nested ones are flattened. Raises
    TrajectoryError, SettingsError."""
    if key is not None:
        content = _required(content, key, "state_key", file)
    trees = _trees(content)
    if not trees:
        raise TrajectoryError(
            f"{file}: contains no state dict (names of parameters and their tensors)"
        )
    if len(trees) > 1:
        allowed = f"one of {', '.join(trees)}, which {file} contains"
        raise SettingsError("state_key", "none", allowed)
    (state,) = map(_flat, trees.values())
    prefix = COMPILED if all(name.startswith(COMPILED) for name in state) else ""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}


def _trees(content: Any) -> dict[str, Any]:
    """The trees of tensors at the smallest depth at which there are any, by their
    names, such as state.nets.student. A tree of several states of one model is none,
    nor is one with a single branch."""
    level = {"": content}
    while level:
        trees = {name: item for name, item in level.items() if _is_one_model(item)}
        if trees:
            return trees
        level = {
            f"{name}.{inner}".removeprefix("."): item
            for name, part in level.items()
            for inner, item in _parts(part).items()
        }
    return {}


def _is_one_model(content: Any) -> bool:
    """Whether a part of a checkpoint is the tree of one model: its branches are not all
    of the same names and shapes, as a model and its average are."""
    if not _is_tree(content) or _is_state_dict(content):
        return _is_state_dict(content)
    shapes = [
        {name: tensor.shape for name, tensor in _flat(part).items()}
        for part in _parts(content).values()
        if not isinstance(part, torch.Tensor)
    ]
    return any(other != shapes[0] for other in shapes) or len(shapes) < len(
        _parts(content)
    )


def _find_series(content: Any, key: str | None) -> dict[Any, StateDict] | None:
    """The state dicts of a file that contains several, by step, or by their index as a
    string if the file gives no steps. None if it does not contain several."""
    if key is not None:
        content = _lookup(content, key)
    if isinstance(content, Sequence) and content and all(map(_is_tree, content)):
        return {str(place): _flat(state) for place, state in enumerate(content)}
    values = list(_mapping(content).values())
    if values and all(map(_is_tree, values)):
        steps = [int(name) if str(name).isdigit() else name for name in content]
        if all(isinstance(step, int) for step in steps):
            return dict(zip(steps, map(_flat, values), strict=True))
    if key is not None or _is_one_model(content):
        return None
    series = [
        item for value in values if (item := _find_series(value, None)) is not None
    ]
    return series[0] if len(series) == 1 else None


# ------------------------------------------------------------------------------- steps


def _steps_of(
    files: Sequence[Path], contents: Sequence[Any], name: str | None
) -> list[int]:
    """The steps of checkpoints: the numbers at `name` in the contents; or those in the
    names of the files; or those at the only name, or at a usual one, whose numbers
    differ between the files; or 0 of a single file. Raises SettingsError."""
    if name is None:
        steps = _steps_from_names(files) or ([0] if len(files) == 1 else None)
        if steps is not None:
            return steps
        name = _differing_number([dict(_whole_numbers(item)) for item in contents])
    if name is None:
        allowed = (
            "the name of the step in the files, as their names have no single number"
            f" that differs between them; {_names_in(contents[0], files[0])}"
        )
        raise SettingsError("step_from", "none", allowed)
    return [
        _as_step(_required(content, name, "step_from", file), name, file)
        for content, file in zip(contents, files, strict=True)
    ]


def _steps_of_series(
    steps: Sequence[Any], content: Any, name: str | None, file: Path
) -> list[int]:
    """The steps of the state dicts in one file: their own, or those in the list at
    `name`. Raises SettingsError."""
    if name is None:
        if not all(isinstance(step, int) for step in steps):
            allowed = f"the list of steps; {_names_in(content, file)}"
            raise SettingsError("step_from", "none", allowed)
        return list(steps)
    values = _required(content, name, "step_from", file)
    if len(values) != len(steps):
        found = f"{len(values)} numbers in {name}"
        raise SettingsError("step_from", found, f"{len(steps)}, the state dicts")
    return [_as_step(value, name, file) for value in values]


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
    is_scalar = isinstance(value, torch.Tensor) and value.numel() == 1
    number = value.item() if is_scalar else value
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or number != int(number) or number < 0:
        what = f"{name} = {value} in {file}"
        raise SettingsError("step_from", what, "the name of a whole number from 0")
    return int(number)


def _steps_from_names(files: Sequence[Path]) -> list[int] | None:
    """The number in the names of files that is named a step, or else the only one that
    differs between them; None if there is none."""
    names = [
        file.parent.name if file.name in MODEL_NAMES else file.stem for file in files
    ]
    labelled = [LABELLED.search(name) for name in names]
    steps = [int(match[1]) for match in labelled if match]
    if len(set(steps)) == len(files):
        return steps
    numbers = [[int(digits) for digits in re.findall(r"\d+", name)] for name in names]
    if len(files) == 1 or len({len(row) for row in numbers}) > 1:
        return None
    columns = zip(*numbers, strict=True)
    differing = [column for column in columns if len(set(column)) > 1]
    return list(differing[0]) if len(differing) == 1 else None
