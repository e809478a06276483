"""Whether a hand-built ideal circuit is a fixed point of gradient descent, and one that it returns to.

python -m analysis.fixed_points

See `analysis.clustering_heads.stability` for what is asked and `analysis.clustering_heads.constructions` for the
circuit. It is looked at with
transforms of different size (gain), and where it has settled under weight decay; and pushed, both as built by hand and
settled, in the directions that break its invariances and in all at once.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from analysis.command_line.options import SparseOptions
from analysis.command_line.parsing import run_command
from dynamics.settings import SUCCESS_ACCURACY, SettingsError, SparseSettings, check_integer, check_real

if TYPE_CHECKING:
    import numpy as np
    import torch
    import xarray as xr

    from analysis.clustering_heads.stability import LocalLandscape
    from analysis.output.tables import TableRow
    from dynamics.networks.clustering_head import ClusteringHead

_TITLE = "The ideal circuit as a fixed point of gradient descent"

_TRAINING_SETTINGS = (
    "lr", "optimizer", "weight_decay", "beta1", "beta2", "momentum", "batch", "mlp_lr_discount", "assembler_decay",
)  # fmt: skip
"""Settings of how a run is trained, which say nothing here."""

_GAINS = (1.0, 2.0, 5.0, 10.0)
REST_GRADIENT = 1e-8
"""Gradient below which a circuit counts as settled."""

DESCENT_FRAMES = 16
"""Moments of a descent that are looked at."""

PUSHED_GAIN = 2.0
"""Gain of the circuit that is pushed as built by hand, and from which it settles."""

_HEADER = (
    "circuit", "accuracy %", "loss", "|gradient|", "order broken", "by a sample", "least eigenvalue", "largest",
    "order", "suffix",
)  # fmt: skip

LANDSCAPE_COLUMNS = (
    "circuit", "gain", "accuracy", "loss", "gradient", "order_broken", "suffix_broken", "sample_order_broken",
    "sample_suffix_broken", "least_eigenvalue", "largest_eigenvalue", "negative_eigenvalues", "order_least",
    "order_largest", "suffix_least", "suffix_largest",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options:
    """Gradient and Hessian of the loss over all sequences at an ideal circuit built by hand, what of them breaks its
    invariances, and what gradient descent does after a small push."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    decay: float = 1e-4
    """Weight decay, as the L2 term of the loss, under which the circuit settles."""
    push: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    """Lengths of pushes, as shares of the norm of all parameters."""
    draws: int = 1
    """Random pushes of each kind and length."""
    steps: int = 300
    """Steps of gradient descent after a push, at a learning rate of 1 over the largest eigenvalue of the Hessian."""
    out: Path = Path("runs/fixed-points.nc")
    """File for the result; the picture lies beside it."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""

    @property
    def say(self) -> TextIO:
        """Where a person is told things: not among the numbers, where these go to the terminal."""
        return sys.stderr if str(self.csv) == "-" else sys.stdout


def _checked_settings(options: Options) -> SparseSettings:
    """The settings of the circuit. Raises SettingsError."""
    s = options.settings.settings
    usual = dataclasses.replace(SparseSettings(), batch=min(SparseSettings.batch, s.data))  # no batch is above the data
    for name in _TRAINING_SETTINGS:
        if getattr(s, name) != getattr(usual, name):
            raise SettingsError(name, getattr(s, name), "no value here: gradient descent on all sequences")
    check_real("decay", options.decay, positive=True, up_to=1)
    for size in options.push:
        check_real("push", size, positive=True, up_to=1)
    if not options.push or len(set(options.push)) != len(options.push):
        raise SettingsError("push", options.push, "one length or several different ones")
    check_integer("draws", options.draws, 1, 100)
    check_integer("steps", options.steps, 1, 100_000)
    if s.vocab > 3:
        raise SettingsError("vocab", s.vocab, "2 or 3, for which there is a circuit built by hand")
    if s.dim < 2:
        raise SettingsError("dim", s.dim, "2 or more, for which there is a circuit built by hand")
    return s


# ------------------------------------------------------------------------------------------------ what is found


def flat_circuit(network: "ClusteringHead", circuit: "dict[str, torch.Tensor]") -> "torch.Tensor":
    """A circuit as a flat row (parameter,)."""
    import torch

    return torch.from_numpy(network.flatten({name: each.numpy()[None] for name, each in circuit.items()})[0])


def fixed_point_landscape(options: Options) -> "xr.Dataset":
    """All that the module says of the circuits, by `circuit`; and of the pushed ones, by `start`, `push` and `step`.

    Raises SettingsError.
    """
    import numpy as np
    import xarray as xr

    from analysis.clustering_heads.constructions import ideal_circuit
    from analysis.clustering_heads.stability import (
        RegularizedLoss,
        all_sequences,
        find_stationary_point,
        local_landscape,
    )
    from dynamics.networks.clustering_head import ClusteringHead
    from dynamics.tasks import sample_sequences

    s = _checked_settings(options)
    network, tokens = ClusteringHead(s), all_sequences(s)
    sample = sample_sequences(s, np.array([0]), "train")[0].astype(np.int64)
    try:
        rows = {f"gain {gain:g}": flat_circuit(network, ideal_circuit(s, gain)) for gain in _GAINS}
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError("hidden", s.hidden, f"settings with an ideal circuit: {error}") from None
    rest = find_stationary_point(RegularizedLoss(network, tokens, options.decay), rows[f"gain {PUSHED_GAIN:g}"])
    rows["settled"] = rest.row
    decays = {name: options.decay if name == "settled" else 0.0 for name in rows}
    points = {name: local_landscape(network, row, tokens, sample, decays[name]) for name, row in rows.items()}
    starts = [f"gain {PUSHED_GAIN:g}", "settled"]
    after = [
        perturbation_responses(network, rows[name], points[name], tokens, decays[name], options) for name in starts
    ]
    along = xr.concat(after, "start", data_vars="all", coords="minimal", compat="override", join="override")
    whole = landscape_dataset(points).assign_coords({"start": starts, **along.coords}).assign(along.data_vars)
    return whole.assign(circuit_accuracy=circuit_accuracies(network, rows))


def circuit_accuracies(network: "ClusteringHead", rows: "dict[str, torch.Tensor]") -> "xr.DataArray":
    """Accuracy of each circuit over the population, by circuit."""
    import torch
    import xarray as xr

    values = broken_invariances(network, torch.stack(list(rows.values())))["accuracy"]
    return xr.DataArray(values, dims="circuit", attrs={"long_name": "accuracy over the population", "units": "1"})


def landscape_dataset(points: "dict[str, LocalLandscape]") -> "xr.Dataset":
    """What there is at each circuit, by circuit."""
    import numpy as np
    import xarray as xr

    from analysis.clustering_heads.stability import BROKEN_SYMMETRIES

    def told(meaning: str) -> dict[str, str]:
        return {"long_name": meaning, "units": "1"}

    each = list(points.values())
    data = {
        "loss": (("circuit",), [p.loss for p in each], told("cross-entropy over the population")),
        "gradient": (("circuit",), [p.gradient for p in each], told("norm of the gradient, of weight decay too")),
        "broken": (("circuit", "part"), [p.broken for p in each], told("norm of its part that breaks an invariance")),
        "sample_broken": (("circuit", "part"), [p.sample_broken for p in each], told("the same of a training sample")),
        "eigenvalue": (("circuit", "mode"), np.stack([p.spectrum for p in each]), told("eigenvalue of the Hessian")),
    }
    for place, part in enumerate(BROKEN_SYMMETRIES):
        values = np.stack([p.breaking[place] for p in each])
        data[f"{part}_eigenvalue"] = (
            ("circuit", f"{part}_mode"),
            values,
            told(f"eigenvalue among those that break {part}"),
        )
    return xr.Dataset(data, {"circuit": list(points), "part": list(BROKEN_SYMMETRIES)})


def perturbation_responses(
    network: "ClusteringHead",
    row: "torch.Tensor",
    at: "LocalLandscape",
    tokens: "np.ndarray",
    decay: float,
    options: Options,
) -> "xr.Dataset":
    """Gradient descent from a circuit pushed in every way, by push and step: how far invariances are broken."""
    import numpy as np
    import torch
    import xarray as xr

    from analysis.clustering_heads.stability import (
        BROKEN_SYMMETRIES,
        RegularizedLoss,
        gradient_descent,
        random_perturbations,
        symmetry_breaking_directions,
    )

    starts, names = [row[None]], [("none", 0.0)]
    for size in options.push:
        for kind, moves in random_perturbations(network, row, size, options.draws).items():
            if kind != "none":
                starts.append(row + moves)
                names += [(kind, size)] * len(moves)
    loss = RegularizedLoss(network, tokens, decay)
    found = gradient_descent(loss, torch.cat(starts), 1 / float(at.spectrum[-1]), options.steps, DESCENT_FRAMES)
    names_of = ("order_share", "value_share", "accuracy", "pushed_loss", "distance")
    values: dict[str, list[np.ndarray]] = {name: [] for name in names_of}
    for rows in found.rows:
        for name, each in broken_invariances(network, rows).items():
            values[name].append(each)
        values["pushed_loss"].append(torch.stack([loss(row) for row in rows]).numpy())
        values["distance"].append((rows - rows[0]).norm(dim=-1).numpy())
    apart = torch.stack(
        [(found.rows @ symmetry_breaking_directions(network, part)).norm(dim=-1) for part in BROKEN_SYMMETRIES]
    ).numpy()
    meanings = {
        "order_share": "largest order share of two counting positions", "accuracy": "accuracy over the population",
        "value_share": "largest value share of a spurious position", "pushed_loss": "loss, with weight decay",
        "distance": "distance from the circuit that was not pushed",
    }  # fmt: skip
    data = {
        name: (("step", "pushed"), np.stack(each), {"long_name": meanings[name], "units": "1"})
        for name, each in values.items()
    }
    for place, part in enumerate(BROKEN_SYMMETRIES):
        data[f"{part}_apart"] = (
            ("step", "pushed"),
            apart[place],
            {"long_name": f"distance that breaks {part}", "units": "1"},
        )
    data["flow_time"] = (("step", "pushed"), found.time, {"long_name": "time of the gradient flow", "units": "1"})
    coords = {
        "step": found.steps, "kind": ("pushed", [kind for kind, _ in names]),
        "push": ("pushed", [size for _, size in names]),
    }  # fmt: skip
    return xr.Dataset(data, coords)


def broken_invariances(network: "ClusteringHead", rows: "torch.Tensor") -> "dict[str, np.ndarray]":
    """How far invariances are broken, and the accuracy, at flat rows (start, parameter): (start,) each."""
    import torch

    from analysis.clustering_heads.invariances import (
        batched_sequence_embeddings,
        invariance_probe,
        order_variance_fractions,
        token_variance_fractions,
    )
    from dynamics.tasks import sparse_sum

    s, weights = network.settings, network.unflatten(rows)
    at = invariance_probe(s)
    xi = batched_sequence_embeddings(network, weights, at.tokens)[0]
    told = (network.transform(weights, xi[:, at.base]) @ weights["embedding"].mT).argmax(-1)
    right = told == torch.from_numpy(sparse_sum(at.tokens[at.base], s))
    spurious = [t for t in range(s.length) if t not in s.counting]
    shares = token_variance_fractions(xi.numpy(), at).mean(axis=(-2, -1))[:, spurious]
    return {
        "order_share": order_variance_fractions(xi.numpy(), at).max(axis=(-2, -1)),
        "value_share": shares.max(axis=-1, initial=0),
        "accuracy": right.double().mean(-1).numpy(),
    }


# ---------------------------------------------------------------------------------------------------- tables


def landscape_rows(found: "xr.Dataset") -> "list[TableRow]":
    """A row a circuit; eigenvalues in the breaking directions as their range."""
    from analysis.clustering_heads.stability import NULL_EIGENVALUE_TOLERANCE
    from analysis.output.tables import TableRow, format_number

    result = []
    for name in found["circuit"].values:
        one = found.sel(circuit=name)
        spectrum = one["eigenvalue"].values
        ranges = [one[f"{part}_eigenvalue"].values for part in found["part"].values]
        ends = [value for part in ranges for value in ((part.min(), part.max()) if part.size else (float("nan"),) * 2)]
        broken, sampled = one["broken"].values, one["sample_broken"].values
        accuracy = float(one["circuit_accuracy"])
        text = [
            str(name),
            f"{100 * accuracy:.1f}",
            *(f"{value:.1e}" for value in (one["loss"], one["gradient"], broken[0], sampled[0])),
        ]
        text += [f"{spectrum[0]:.1e}", f"{spectrum[-1]:.1e}"]
        text += [f"{low:.1e} .. {high:.1e}" if low == low else "-" for low, high in (ends[:2], ends[2:])]
        negative = int((spectrum < -NULL_EIGENVALUE_TOLERANCE * abs(spectrum).max()).sum())
        gain = float(str(name).split()[1]) if str(name).startswith("gain") else PUSHED_GAIN
        numbers = [
            gain,
            accuracy,
            float(one["loss"]),
            float(one["gradient"]),
            *broken,
            *sampled,
            spectrum[0],
            spectrum[-1],
        ]
        numbers += [negative, *ends]
        result.append(TableRow(text, [str(name), *(format_number(float(value)) for value in numbers)]))
    return result


def _returns_table(found: "xr.Dataset") -> str:
    """What became of each kind of push, at the worst of its draws, as a table."""
    from analysis.output.tables import TextTable

    table = []
    for start in found["start"].values:
        one = found.sel(start=start)
        for kind, size in dict.fromkeys(zip(one["kind"].values.tolist(), one["push"].values.tolist(), strict=True)):
            some = one.isel(pushed=(one["kind"].values == kind) & (one["push"].values == size))
            first, last = some.isel(step=0), some.isel(step=-1)
            worst = int(last["accuracy"].values.argmin())
            cells = [_short(float(frame[name].max(skipna=False))) for name in ("order_share", "value_share", "distance")
                     for frame in (first, last)]  # fmt: skip
            accuracies = [f"{100 * float(frame['accuracy'][worst]):.1f}" for frame in (first, last)]
            table.append([str(start), kind, f"{size:g}" if size else "-", *cells, *accuracies])
    header = ("from", "pushed in", "by", "order share", "after", "value share", "after", "distance", "after",
              "accuracy %", "after")  # fmt: skip
    return TextTable(header, table, left=(0, 1)).text()


def _short(value: float) -> str:
    """A dash where there is no value: no share of the variance of sequence embeddings that do not vary."""
    return f"{value:.1e}" if value == value else "-"


def main(options: Options) -> None:
    """Build the circuit, let it settle, push it; print the tables, write the result and draw the figure."""
    from analysis.output import tables
    from analysis.output.results import check_result_path, write_result
    from analysis.plots.figure_files import save_figure
    from analysis.plots.fixed_points_figure import plot_fixed_points
    from dynamics.networks.threads import single_torch_thread

    _checked_settings(options)
    settings = {**dataclasses.asdict(options), "out": "", "csv": ""}
    what = {"title": _TITLE, "config_json": json.dumps(settings)}
    out = check_result_path(options.out, what)
    with single_torch_thread():
        found = fixed_point_landscape(options).assign_attrs(what)
    write_result(found, out)
    save_figure(plot_fixed_points(found), out.with_suffix(".png"))
    print(f"result      {out}\npicture     {out.with_suffix('.png')}", file=options.say)
    tables.print_rows(_HEADER, LANDSCAPE_COLUMNS, landscape_rows(found), options.csv)
    about = "order, suffix: range of the Hessian's eigenvalues among directions that break them"
    left = float(found["gradient"].sel(circuit="settled"))
    rest = "" if left < REST_GRADIENT else f", not at rest: a gradient of {left:.1g} is left"
    accuracy = float(found["circuit_accuracy"].sel(circuit="settled"))
    rest += "" if accuracy > SUCCESS_ACCURACY else f"; it no longer solves the task: accuracy {100 * accuracy:.1f}%"
    print(
        f"\n{about}; settled: under weight decay {options.decay:g}{rest}\n\n{_returns_table(found)}", file=options.say
    )


if __name__ == "__main__":
    run_command(main, Options, "analysis.fixed_points")
