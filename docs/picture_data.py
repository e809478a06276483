"""The data of the pictures of the gallery: the arguments of the functions that draw
them, in small files from which they are drawn again.

python docs/picture_data.py FILE (-m MODULE | SCRIPT | -) ARGUMENTS...

runs a program as `python` does, and writes the arguments of the last figure that it
draws to FILE, which is removed if it draws none. Panels of `analysis.frame` and films
have no such functions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import io
import json
import runpy
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib import colors
from matplotlib.figure import Figure

from analysis.plots import figure_files

_MANTISSA = 9
"""Bits of the mantissa of stored values: a relative error of at most 0.001."""

LARGEST = 100_000
"""Bytes of a file from which on it has fewer runs than the picture."""

_DATE = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass
class Drawing:
    """A function that draws a figure, and its arguments."""

    plot: str
    """module:name."""
    arguments: list[Any]
    options: dict[str, Any]
    whole: bool = True
    """Whether the arguments have all runs that the picture shows."""
    shows: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The result of `describe` for the figure when the picture was drawn."""
    picture: str = ""
    """The SHA-256 of the picture's file."""

    def function(self) -> Callable[..., Figure]:
        return _find(self.plot)

    def figure(self) -> Figure:
        """The figure in the style in use."""
        return self.function()(*self.arguments, **self.options)

    def without_layout(self) -> Figure:
        """The figure before its texts are wrapped and its legends placed, which depend
        on the size of letters."""
        plot: Any = self.function()
        with matplotlib.rc_context(figure_files.style_parameters()):
            return plot.__wrapped__(*self.arguments, **self.options)


def _find(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


# ------------------------------------------------------------------------- the content


def describe(figure: Figure) -> dict[str, Any]:
    """What a figure shows: its texts, the limits of its axes, and of all lines, marks,
    bands, bars and images the colours and the summaries of their coordinates."""
    words = [text.get_text() for text in figure.texts]
    words += [
        text.get_text() for legend in figure.legends for text in legend.get_texts()
    ]
    return {
        "texts": [figure.get_suptitle(), *words],
        "axes": [_describe_axes(axes) for axes in figure.axes],
    }


def _describe_axes(axes: Any) -> dict[str, Any]:
    legend = axes.get_legend()
    words = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
    words += [text.get_text() for text in axes.texts]
    words += [text.get_text() for text in legend.get_texts()] if legend else []
    artists = [*axes.lines, *axes.patches, *axes.collections, *axes.images]
    return {
        "texts": words,
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "limits": [_summary(axes.get_xlim()), _summary(axes.get_ylim())],
        "artists": [_describe_artist(item) for item in artists],
    }


def _describe_artist(item: Any) -> list[Any]:
    """Kind, look and summaries of an artist."""
    kind = type(item).__name__
    if hasattr(item, "get_xydata"):
        look = [item.get_linestyle(), str(item.get_marker()), item.get_linewidth()]
        numbers = [_summary(column) for column in np.transpose(item.get_xydata())]
        return [kind, colors.to_hex(item.get_color(), True), look, numbers]
    if hasattr(item, "get_paths"):
        vertices = [path.vertices for path in item.get_paths()]
        points = np.concatenate([*vertices, np.ma.filled(item.get_offsets(), np.nan)])
        fills = [_summary(item.get_facecolor()), _summary(item.get_edgecolor())]
        values = item.get_array()
        fills += [] if values is None else [item.get_cmap().name, _summary(values)]
        return [kind, fills, [_summary(column) for column in points.T]]
    if hasattr(item, "get_path"):
        points = item.get_patch_transform().transform(item.get_path().vertices)
        fills = [colors.to_hex(item.get_facecolor(), True)]
        return [kind, fills, [_summary(column) for column in points.T]]
    return [kind, item.get_cmap().name, _summary(item.get_array())]


def _summary(values: Any) -> list[float]:
    """Number of finite values, mean, standard deviation, and mean product with their
    rank in the list from -1 to 1, which depends on their order."""
    flat = np.ma.filled(np.ma.asarray(values, float), np.nan).ravel()
    place = np.linspace(-1, 1, flat.size)[np.isfinite(flat)]
    flat = np.clip(flat[np.isfinite(flat)], -1e30, 1e30)  # squares are finite
    if not flat.size:
        return [0]
    numbers = (flat.mean(), flat.std(), (flat * place).mean())
    return [flat.size, *(float(f"{number:.5g}") for number in numbers)]


def is_same(one: Any, other: Any) -> bool:
    """Whether two descriptions agree, their numbers up to what processors differ in."""
    if _is_summary(one) and _is_summary(other):
        if len(one) != len(other) or one[0] != other[0]:
            return False
        size = 1e-3 * max(map(abs, (*one[1:3], *other[1:3])), default=0)
        return all(
            abs(a - b) <= size + 1e-9 for a, b in zip(one[1:], other[1:], strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            is_same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _is_summary(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


# --------------------------------------------------------------------------- the files


def write_drawing(drawing: Drawing, path: Path) -> None:
    """Write a drawing to a file."""
    path.write_bytes(_encoded(drawing))


def _encoded(drawing: Drawing) -> bytes:
    """A drawing as a zip archive: its arrays, and a JSON tree that refers to them."""
    arrays: list[np.ndarray] = []
    tree = [
        drawing.plot,
        _encode(drawing.arguments, arrays),
        _encode(drawing.options, arrays),
        drawing.whole,
        drawing.shows,
        drawing.picture,
        [[array.dtype.str, array.shape] for array in arrays],
    ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        _add(file, "tree.json", json.dumps(tree).encode())
        for index, array in enumerate(arrays):
            _add(file, str(index), _shuffled(array))
    return content.getvalue()


def _add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_LZMA
    file.writestr(entry, content)


def read_drawing(path: Path) -> Drawing:
    """A drawing from its file."""
    with zipfile.ZipFile(path) as file:
        tree = json.loads(file.read("tree.json"))
        plot, arguments, options, *rest, kinds = tree
        arrays = [
            _ordered(file.read(str(index)), *kind) for index, kind in enumerate(kinds)
        ]
    return Drawing(plot, _decode(arguments, arrays), _decode(options, arrays), *rest)


def _shuffled(array: np.ndarray) -> bytes:
    """The bytes of an array, first the first bytes of all its values."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return content.reshape(-1, array.dtype.itemsize).T.tobytes()


def _ordered(content: bytes, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """An array from its shuffled bytes."""
    kind = np.dtype(dtype)
    values = np.frombuffer(content, np.uint8).reshape(kind.itemsize, -1).T
    return np.ascontiguousarray(values).view(kind).reshape(shape)


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """A value as JSON, with numbers of arrays in the place of arrays."""
    encode = functools.partial(_encode, arrays=arrays)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "_fields"):
        return {"object": [_path_of(type(value)), encode(value._asdict())]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, xr.Dataset | xr.DataArray):
        return {type(value).__name__: encode(value.to_dict(data="array"))}
    if isinstance(value, pd.DataFrame):
        return {"DataFrame": encode(value.to_dict("list"))}
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind in "OT":  # words
            array = np.array(array.tolist(), str)
        arrays.append(array)
        return {"array": len(arrays) - 1}
    if dataclasses.is_dataclass(value):
        return {"object": [_path_of(type(value)), encode(_fields(value))]}
    raise TypeError(f"a picture is drawn from a {type(value).__name__}")


def _path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _fields(value: Any) -> dict[str, Any]:
    """The arguments of a dataclass."""
    fields = [field for field in dataclasses.fields(value) if field.init]
    return {field.name: getattr(value, field.name) for field in fields}


def _decode(value: Any, arrays: list[np.ndarray]) -> Any:
    decode = functools.partial(_decode, arrays=arrays)
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        array = arrays[content]
        return array if array.ndim else array[()]
    if kind == "dict":
        return {decode(key): decode(item) for key, item in content}
    if kind == "object":
        name, fields = content
        return _find(name)(**decode(fields))
    if kind in ("Dataset", "DataArray"):
        return getattr(xr, kind).from_dict(decode(content))
    if kind == "DataFrame":
        return pd.DataFrame(decode(content))
    items = [decode(item) for item in content]
    return items if kind == "list" else tuple(items)


def seal_drawing(path: Path, picture: Path) -> None:
    """Note in a file what its figure shows now, and the picture that was drawn."""
    drawing = read_drawing(path)
    drawing.shows = describe(drawing.without_layout())
    drawing.picture = hash_of(picture)
    write_drawing(drawing, path)


def hash_of(picture: Path) -> str:
    """The SHA-256 of a picture's file."""
    return hashlib.sha256(picture.read_bytes()).hexdigest()


# ---------------------------------------------------------------------------- less data


def reduce_drawing(drawing: Drawing) -> Drawing:
    """A drawing of rounded values without the variables that its figure does not show;
    of fewer runs, if it is large still."""
    for name in sorted(_names_of_variables(drawing.arguments)):
        drawing = _if_same(drawing, functools.partial(_without, name=name))
    drawing = _with_data(drawing, _round_data)
    if len(_encoded(drawing)) >= LARGEST:
        for name, runs in sorted(_runs_of_variables(drawing.arguments).items()):
            drawing = _without_other_runs(drawing, name, runs)
    for runs in (16, 8, 4):
        if len(_encoded(drawing)) < LARGEST:
            break
        less = _with_data(drawing, functools.partial(_first_runs, runs=runs))
        with contextlib.suppress(Exception):
            less.without_layout()
            drawing = dataclasses.replace(less, whole=False)
    return drawing


def _without_other_runs(drawing: Drawing, name: str, runs: int) -> Drawing:
    """A drawing with zeros for a variable's values of runs before and after the only
    ones that its figure shows."""
    first, last = 0, runs
    while last - first > 1:
        middle = (first + last) // 2
        for begin, end in ((first, middle), (middle, last)):
            blank = functools.partial(_blank, name=name, begin=begin, end=end)
            less = _if_same(drawing, blank)
            if less is not drawing:
                break
        else:
            break
        drawing = less
        first, last = (middle, last) if begin == first else (first, middle)
    return drawing


def _with_data(drawing: Drawing, change: Callable[[xr.Dataset], xr.Dataset]) -> Drawing:
    """A drawing of changed datasets."""
    return dataclasses.replace(drawing, arguments=_map_data(drawing.arguments, change))


def _if_same(drawing: Drawing, change: Callable[[xr.Dataset], xr.Dataset]) -> Drawing:
    """A drawing of changed datasets, or the drawing if its figure would change."""
    less = _with_data(drawing, change)
    with contextlib.suppress(Exception):
        if is_same(describe(less.without_layout()), describe(drawing.without_layout())):
            return less
    return drawing


def _without(data: xr.Dataset, name: str) -> xr.Dataset:
    return data.drop_vars(name, errors="ignore")


def _map_data(value: Any, change: Callable[[xr.Dataset], xr.Dataset]) -> Any:
    """Arguments with changed datasets."""
    if isinstance(value, xr.Dataset):
        return change(value)
    if hasattr(value, "_fields"):
        return type(value)(*(_map_data(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_map_data(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _map_data(item, change) for key, item in value.items()}
    if isinstance(value, xr.DataArray):
        changed = change(value.to_dataset(name="values"))
        return changed["values"].rename(value.name) if "values" in changed else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value)(**_map_data(_fields(value), change))
    return value


def _datasets(value: Any) -> Iterator[xr.Dataset]:
    found: list[xr.Dataset] = []

    def keep(data: xr.Dataset) -> xr.Dataset:
        found.append(data)
        return data

    _map_data(value, keep)
    return iter(found)


def _names_of_variables(value: Any) -> set[str]:
    return {str(name) for data in _datasets(value) for name in data.variables}


def _runs_of_variables(value: Any) -> dict[str, int]:
    """The number of runs of each float variable that has a further dimension."""
    return {
        str(name): item.sizes["run"]
        for data in _datasets(value)
        for name, item in data.data_vars.items()
        if "run" in item.dims and item.ndim > 1 and item.dtype.kind == "f"
    }


def _blank(data: xr.Dataset, name: str, begin: int, end: int) -> xr.Dataset:
    """A dataset with zeros for the values of some runs."""
    if name not in data or "run" not in data[name].dims:
        return data
    item = data[name].copy(deep=True)
    item[{"run": slice(begin, end)}] = 0
    return data.assign({name: item})


def _round_data(data: xr.Dataset) -> xr.Dataset:
    """A copy of a dataset with rounded values, which compress better."""
    return data.copy(
        data={name: _round(item.values) for name, item in data.data_vars.items()}
    )


def _round(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "f":
        return values
    mantissa, exponent = np.frexp(values)
    scale = 2.0 ** (_MANTISSA + 1)
    with np.errstate(invalid="ignore"):
        return np.ldexp(np.round(mantissa * scale) / scale, exponent).astype(
            values.dtype
        )


def _first_runs(data: xr.Dataset, runs: int) -> xr.Dataset:
    return data.isel(run=slice(runs)) if "run" in data.dims else data


# ------------------------------------------------------------------------ the recording


def record_figures() -> list[Drawing]:
    """A list to which each figure that is drawn from now on adds its drawing; called
    before the functions that draw are imported."""
    drawings: list[Drawing] = []
    in_style = figure_files.in_style

    def recorded(plot: Callable[..., Figure]) -> Callable[..., Figure]:
        styled = in_style(plot)

        @functools.wraps(plot)
        def draw(*arguments: Any, **options: Any) -> Figure:
            figure = styled(*arguments, **options)
            module = plot.__module__
            if module == "__main__":
                module = Path(sys.argv[0]).with_suffix("").as_posix().replace("/", ".")
            path = f"{module}:{plot.__name__}"
            drawings.append(Drawing(path, list(arguments), options))
            return figure

        return draw

    figure_files.in_style = recorded
    return drawings


def main(file: str, program: str, *arguments: str) -> None:
    """Run a program and write its last drawing."""
    drawings = record_figures()
    module = program == "-m"
    sys.argv = list(arguments) if module else [program, *arguments]
    sys.path[0] = ""
    Path(file).unlink(missing_ok=True)
    try:
        if module:
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        elif program == "-":
            exec(compile(sys.stdin.read(), "-", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(program, run_name="__main__")
    finally:
        if drawings:
            write_drawing(reduce_drawing(drawings[-1]), Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
