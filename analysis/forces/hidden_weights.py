"""CA figure 6: size of the hidden weights and biases against weight decay, and what they align with (CA 5.2).

python -m analysis.weights
"""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.command_line.parsing import run_command
from analysis.output.files import combined_path
from dynamics.settings import ModularSettings, SettingsError, check_integer

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

    from analysis.output.tables import TableRow
    from analysis.statistics.intervals import Interval

SIZES = ("weight", "bias")
MEASURES = ("alignment", "boundaries", "rays")
"""As `analysis.forces.alignment` defines them: weights along pair sums, units' boundaries through pair sums, and pair
sums of a class along a line. Each has a chance level."""

HEADER = (
    "weight decay",
    "runs",
    "|W_h|",
    "|b_h|",
    "alignment",
    "chance",
    "boundaries",
    "chance",
    "rays",
    "chance",
    "circles",
)

COLUMNS = (
    "weight_decay",
    "structure",
    "runs",
    *(f"{name}{end}" for name in SIZES for end in ("", "_low", "_high")),
    *(f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high", "_chance")),
    "circles",
)
"""Of the table as CSV: numbers, or nothing where there is none; structure is all, circles or others."""

Runs = Mapping[str, "np.ndarray"]
"""What is known of some runs, each (run,): seed, circle, the SIZES, the MEASURES and each one's _chance."""


class WeightGroup(NamedTuple):
    """Means over some runs with 95% intervals over seeds; chance levels by the names of the MEASURES."""

    runs: int
    circles: int
    mean: dict[str, "Interval"]
    chance: dict[str, float]


def measure_weights(trajectory: "xr.Dataset") -> dict[str, "np.ndarray"]:
    """The last frame of the runs that have not diverged, as `Runs`. Pair sums are those of the training pairs.

    weight, bias: mean absolute value over the hidden layer's H x D weights and H biases, dead units included.
    """
    import numpy as np

    from analysis.forces import alignment
    from analysis.structures.circles_and_grids import is_circle
    from dynamics.tasks import all_pairs, training_pairs
    from dynamics.trajectory.diverged import not_diverged
    from dynamics.trajectory.schema import read_settings

    last = trajectory.isel(step=-1)
    last = last.isel(run=np.flatnonzero(not_diverged(last)))
    embedding = last["embedding"].transpose("run", "token", "axis").values.astype(np.float64)
    weight = last["hidden_weight"].transpose("run", "hidden", "axis").values.astype(np.float64)
    bias = last["hidden_bias"].transpose("run", "hidden").values.astype(np.float64)
    settings, seeds = read_settings(trajectory), last["seed"].values
    chosen = training_pairs(settings.modulus, settings.train_pairs, seeds)  # type: ignore[attr-defined]
    pairs = np.broadcast_to(all_pairs(settings.modulus), (*chosen.shape, 2))[chosen]
    pairs = pairs.reshape(len(seeds), settings.train_pairs, 2)  # type: ignore[attr-defined]
    found = {"seed": seeds, "weight": np.abs(weight).mean(axis=(1, 2)), "bias": np.abs(bias).mean(axis=1)}
    found["circle"] = is_circle(embedding) if len(seeds) else np.zeros(0, dtype=bool)
    sums = alignment.embedding_pair_sums(embedding, pairs)
    results = {
        "alignment": alignment.weight_alignment(sums, weight, bias),
        "boundaries": alignment.boundary_alignment(sums, weight, bias),
        "rays": alignment.pair_sum_collinearity(embedding, pairs),
    }
    for name, result in results.items():
        found[name], found[f"{name}_chance"] = result.value, result.chance
    return found


def mean_weight_measures(runs: Runs) -> WeightGroup:
    """Means over runs; those of one seed count as one, for alike initial weights end alike."""
    import numpy as np

    def by_seed(name: str) -> "np.ndarray":
        known = np.isfinite(runs[name])  # a run without living units has no alignment
        values, seeds = runs[name][known], runs["seed"][known]
        return np.array([values[seeds == seed].mean() for seed in np.unique(seeds)])

    from analysis.statistics.intervals import mean_interval

    return WeightGroup(
        runs=len(runs["seed"]),
        circles=int(runs["circle"].sum()),
        mean={name: mean_interval(by_seed(name)) for name in (*SIZES, *MEASURES)},
        chance={name: mean_interval(by_seed(f"{name}_chance")).value for name in MEASURES},
    )


def groups_by_structure(found: Sequence[Runs]) -> dict[str, WeightGroup]:
    """The runs of all weight decays, circles apart from the others; without a kind there is none of."""
    import numpy as np

    together = {name: np.concatenate([runs[name] for runs in found]) for name in found[0]}
    kinds = {"circles": together["circle"], "others": ~together["circle"]}
    return {
        kind: mean_weight_measures({name: values[chosen] for name, values in together.items()})
        for kind, chosen in kinds.items()
        if chosen.any()
    }


# ------------------------------------------------------------------------------------------------ the table


def _row(label: float | str, found: WeightGroup) -> "TableRow":
    """A group under its weight decay, or under the structure that it has at all weight decays."""
    from analysis.output.tables import TableRow, format_number, format_plus_minus

    pooled = isinstance(label, str)
    text = [label if isinstance(label, str) else f"{label:g}", str(found.runs)]
    text += ["" if pooled else format_plus_minus(found.mean[name], 3) for name in SIZES]
    numbers = ["", label] if isinstance(label, str) else [format_number(label), "all"]
    numbers.append(str(found.runs))
    for name in SIZES:
        numbers += ["", "", ""] if pooled else [format_number(value) for value in found.mean[name]]
    for name in MEASURES:
        text += [format_plus_minus(found.mean[name], 3), _digits(found.chance[name])]
        numbers += [format_number(value) for value in (*found.mean[name], found.chance[name])]
    return TableRow([*text, str(found.circles)], [*numbers, str(found.circles)])


def _digits(value: float) -> str:
    """A number to three digits; a dash where there is none."""
    return "-" if value != value else f"{value:.3f}"


# ----------------------------------------------------------------------------------------------- the figure


COLOURS = {"weight": "C0", "bias": "C1", "alignment": "C2", "boundaries": "C4", "rays": "C3"}
LABELS = {
    "weight": "weights $W_h$",
    "bias": "biases $b_h$",
    "alignment": "weights along pair sums",
    "boundaries": "boundaries through pair sums",
    "rays": "pair sums of a class on a line",
}


def plot_weights(groups: Mapping[float, WeightGroup], kinds: Mapping[str, WeightGroup], title: str) -> "Figure":
    """Sizes against weight decay, as in the paper; beside them the measures, and these by structure."""
    from analysis.plots.figure_files import new_figure

    drawn = new_figure(13.0, 4.6)
    drawn.suptitle(title, fontsize=11)
    left, middle, right = drawn.subplots(1, 3, width_ratios=(1, 1, 0.7))
    _draw(left, list(groups), list(groups.values()), SIZES)
    left.set(xlabel="weight decay", ylabel="mean absolute value", ylim=(0, None))
    left.legend(frameon=False)
    _draw(middle, list(groups), list(groups.values()), MEASURES)
    middle.set(xlabel="weight decay", ylim=(0, 1.05), title="all runs")
    middle.title.set_fontsize(10)
    places = list(range(len(kinds)))
    _draw(right, places, list(kinds.values()), MEASURES, apart=0.2)
    names = [f"{kind} ({each.runs})" for kind, each in kinds.items()]
    right.set(xlim=(-0.5, max(len(kinds), 1) - 0.5), ylim=(0, 1.05), title="by structure, at all weight decays")
    right.set_xticks(places, names)
    right.title.set_fontsize(10)
    _draw_legend(drawn, middle)
    drawn.subplots_adjust(left=0.06, right=0.985, top=0.85, bottom=0.22, wspace=0.2)
    return drawn


def _draw(
    axes, places: Sequence[float], groups: Sequence[WeightGroup], names: Sequence[str], apart: float = 0.0
) -> None:
    """Means with interval bars at places; a dotted line is a chance level. With `apart` as points side by side."""
    import numpy as np

    for at, name in enumerate(names):
        shift = (apart or 0.004 * np.ptp([*places, 0.0])) * (at - (len(names) - 1) / 2)  # bars beside each other
        x = np.asarray(places) + shift
        means = [each.mean[name] for each in groups]
        axes.errorbar(
            x, [each.value for each in means], [np.nan_to_num(each.half) for each in means], label=LABELS[name],
            color=COLOURS[name], marker="o", markersize=4, capsize=3, linestyle="none" if apart else "-",
        )  # fmt: skip
        if name in MEASURES:
            chance = [each.chance[name] for each in groups]
            if apart:
                axes.hlines(chance, x - 0.45 * apart, x + 0.45 * apart, color=COLOURS[name], linestyle=":")
            else:
                axes.plot(x, chance, color=COLOURS[name], linestyle=":")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def _draw_legend(drawn: "Figure", axes) -> None:
    """Of the measures, below the panels that show them."""
    from matplotlib.lines import Line2D

    lines, labels = axes.get_legend_handles_labels()
    lines, labels = [*lines, Line2D([], [], color="0.4", linestyle=":")], [*labels, "by chance"]
    drawn.legend(lines, labels, loc="lower center", bbox_to_anchor=(0.67, 0.0), ncols=4, frameon=False, fontsize=9)


# ---------------------------------------------------------------------------------------------- the command


@dataclasses.dataclass(frozen=True)
class Options:
    """CA figure 6: mean absolute weight and bias of the hidden layer after training at several weight decays;
    beside them how the hidden weights and the pair sums lie to each other (CA section 5.2)."""

    weight_decays: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    """Weight decays, a row each."""
    runs: int = 10
    """Networks a row; the paper has 10."""
    seed: int = 0
    """Seed of the first run of each row."""
    epochs: int = ModularSettings.default_steps
    """How long to train; the paper has 2000."""
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""
    settings: ModularSettings = dataclasses.field(default_factory=ModularSettings)


def _settings_by_decay(options: Options) -> list[ModularSettings]:
    """The settings of each row, in order of weight decay. Raises SettingsError."""
    if options.settings.weight_decay != ModularSettings.weight_decay:
        allowed = "no value here: the table has a row for each of --weight-decays"
        raise SettingsError("weight_decay", options.settings.weight_decay, allowed)
    try:
        rows = [dataclasses.replace(options.settings, weight_decay=each) for each in options.weight_decays]
    except SettingsError as error:
        raise SettingsError("weight_decays", error.found, error.allowed) from None
    rows = sorted(set(rows), key=lambda each: each.weight_decay)
    if not rows:
        raise SettingsError("weight_decays", "none", "at least one")
    check_integer("epochs", options.epochs, 1, 2**53)
    return rows


def main(options: Options) -> None:
    """Train, or find, an ensemble for each weight decay; print the table and draw the figure."""
    from analysis.output import tables
    from analysis.plots.figure_files import save_figure
    from dynamics.preparation import run_path
    from dynamics.simulation import simulate

    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    steps, found, paths = options.epochs * ModularSettings.epoch_steps, {}, []
    for settings in _settings_by_decay(options):
        paths.append(run_path(settings, options.runs, options.seed, every=steps))
        trajectory = simulate(settings, options.runs, options.seed, steps=steps, every=steps, out=paths[-1])
        runs = found[settings.weight_decay] = measure_weights(trajectory)
        diverged = trajectory.sizes["run"] - len(runs["seed"])
        left_out = f", {diverged} runs diverged and left out" if diverged else ""
        print(f"weight decay {settings.weight_decay:g}: {paths[-1]}{left_out}", file=say)
    groups = {weight_decay: mean_weight_measures(runs) for weight_decay, runs in found.items()}
    kinds = groups_by_structure(list(found.values()))
    picture = _picture_path(paths)
    title = f"N = {options.settings.n}, D = {options.settings.dim}, H = {options.settings.hidden}: "
    title += f"{options.runs} networks a weight decay after {options.epochs} epochs, with 95% intervals"
    save_figure(plot_weights(groups, kinds, title), picture)
    print(f"figure: {picture}", file=say)
    rows = [_row(label, each) for label, each in groups.items()] + [_row(kind, each) for kind, each in kinds.items()]
    tables.print_rows(HEADER, COLUMNS, rows, options.csv)


def _picture_path(paths: Sequence[Path]) -> Path:
    """Where the picture of some runs lives, beside them: its name is a hash over theirs."""
    return combined_path(paths, "weights", ".png")


if __name__ == "__main__":
    run_command(main, Options, "analysis.weights")
