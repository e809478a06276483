"""Circuits that VC's network has learned: a label for every run, and how they came about (VC sections 3.1, 3.2, 4.1).

python -m analysis.circuits RUN.nc [OTHER.nc]

- invariances of the sequence embeddings, attention and collapse (`analysis.clustering_heads.invariances`), and the
label that
  follows from them (`analysis.clustering_heads.labels`);
- the sum that sequence embeddings encode instead, where invariances are missing
(`analysis.clustering_heads.encoded_sums`);
- when clusters form, and when the feed-forward layer tells them apart (`analysis.clustering_heads.learning_phases`);
- attention at the start against attention at the end, VC figure 8 (`analysis.clustering_heads.init_dependence`);
- with OTHER.nc, of the same seeds and with another setting, how far final weights move.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from analysis.command_line.parsing import run_command
from analysis.command_line.reading import TrajectoryOptions, open_input, write_result_and_picture
from dynamics.settings import check_integer

if TYPE_CHECKING:
    import xarray as xr

    from analysis.clustering_heads.init_dependence import SameSeedComparison
    from analysis.output.tables import TableRow

_TITLE = "Circuits of VC's network"

_HEADER = (
    "label", "runs", "share %", "above .98", "ideal clusters", "right sum", "accuracy %", "attention", "leak",
    "unswapped",
)  # fmt: skip

_MEANS = ("accuracy", "mass", "leak", "unswapped")

_COLUMNS = (
    "label", "runs", "share", "share_low", "share_high", "successful", "ideal_clusters", "congruent",
    *(f"{name}{end}" for name in _MEANS for end in ("", "_low", "_high")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Options(TrajectoryOptions):
    """What kind of circuit every run of VC's network has learned, and why; when its clusters formed and were told
    apart; how much of its attention it had from the start; and, with a second trajectory of the same seeds, how far
    final weights move when a setting changes."""

    other: tyro.conf.Positional[Path | None] = None
    """A trajectory of the same seeds and the same first weights with another setting."""
    frames: int = 201
    """At how many recorded frames it is looked whether clusters have formed."""


# ------------------------------------------------------------------------------------------------ what is found


def measure_circuits(trajectory: "xr.Dataset", other: "xr.Dataset | None" = None, frames: int = 201) -> "xr.Dataset":
    """All that the module says of every run; see the modules that it names for what each variable is.

    Raises TrajectoryError, SettingsError.
    """
    import xarray as xr

    from analysis.clustering_heads.encoded_sums import measure_encoded_sums
    from analysis.clustering_heads.init_dependence import attention_start_end_correlation, endpoint_similarity
    from analysis.clustering_heads.invariances import measure_invariances
    from analysis.clustering_heads.labels import circuit_labels, label_sensitivity
    from analysis.clustering_heads.learning_phases import measure_learning_phases
    from dynamics.training.finetuning import successful_runs

    check_integer("frames", frames, 2, 10**9)
    found = measure_invariances(trajectory)
    parts = [
        found,
        measure_encoded_sums(trajectory),
        measure_learning_phases(trajectory, frames),
        attention_start_end_correlation(trajectory).rename("inherited").to_dataset(),
    ]
    if other is not None:
        parts.append(endpoint_similarity(trajectory, other))
    whole = xr.merge(parts, compat="no_conflicts", join="outer", combine_attrs="drop_conflicts")
    judged = circuit_labels(found)
    whole["label"] = ("run", [each.label for each in judged], {"long_name": "kind of circuit"})
    whole["reason"] = ("run", [each.reason for each in judged], {"long_name": "why it is of that kind"})
    whole["successful"] = (
        "run",
        successful_runs(trajectory),
        {"long_name": "whether the test accuracy at the end is above .98"},
    )
    whole["sensitivity"] = label_sensitivity(found).rename(label="kind")
    return whole.assign_attrs(found.attrs)


# ---------------------------------------------------------------------------------------------------- tables


def _label_rows(found: "xr.Dataset", ideal: int) -> "list[TableRow]":
    """A row a label, with 95% intervals: binomial for shares, t for means over its runs."""
    import numpy as np

    from analysis.clustering_heads.invariances import counting_attention, largest_leak, largest_order_fraction
    from analysis.clustering_heads.labels import CIRCUIT_LABELS
    from analysis.output.tables import (
        TableRow,
        format_number,
        format_percent,
        format_percent_plus_minus,
        format_plus_minus,
    )
    from analysis.statistics.intervals import binomial_interval, mean_interval

    result, total = [], found.sizes["run"]
    values = dict(
        zip(
            _MEANS,
            (found["accuracy"].values, counting_attention(found), largest_leak(found), largest_order_fraction(found)),
            strict=True,
        )
    )
    for label in CIRCUIT_LABELS:
        of = found["label"].values == label
        share = binomial_interval(int(of.sum()), total)
        counted = [found["successful"].values, found["clusters"].values == ideal, found["sum_congruent"].values]
        numbers = [int((of & each.astype(bool)).sum()) for each in counted]
        means = [mean_interval(each[of & np.isfinite(each)]) for each in values.values()]
        text = [
            label,
            str(int(of.sum())),
            format_percent(share),
            *map(str, numbers),
            format_percent_plus_minus(means[0]),
        ]
        text += [format_plus_minus(mean, digits) for mean, digits in zip(means[1:], (2, 3, 3), strict=True)]
        cells = [int(of.sum()), *share, *numbers, *(bound for mean in means for bound in mean)]
        result.append(TableRow(text, [label, *(format_number(value) for value in cells)]))
    return result


def _header(ideal: int) -> tuple[str, ...]:
    """Of the table, for a task whose ideal circuit has so many clusters."""
    return tuple(f"{ideal} clusters" if name == "ideal clusters" else name for name in _HEADER)


def _missing_invariances_table(found: "xr.Dataset") -> str:
    """What successful runs lack, run by run, as a table; empty where none lacks anything."""
    from analysis.output.tables import TextTable

    some = found.isel(run=found["successful"].values & found["label"].isin(["partial", "fuzzy"]).values)
    lines = [
        [str(int(one["seed"])), str(one["label"].values), f"{int(one['clusters'])}", str(int(one["sum_levels"]) or "-"),
         _unexpected_steps(one), str(one["reason"].values)]
        for one in (some.isel(run=run) for run in range(some.sizes["run"]))
    ]  # fmt: skip
    header = ("seed", "label", "clusters", "sums", "counts", "what is missing")
    return TextTable(header, lines, left=(1, 4, 5)).text() if lines else ""


def _unexpected_steps(one: "xr.Dataset") -> str:
    """Positions whose tokens count otherwise than asked in the sum that a run encodes; a dash where it encodes none."""
    import numpy as np

    if not bool(one["sum_whole"]):
        return "-"
    steps, told = one["sum_steps"].values.round().astype(int), []
    for position, each in enumerate(steps):
        asked = np.arange(len(each)) * int(position in one["counting"].values)
        if (each != asked).any():
            told.append(f"x{position} as {', '.join(map(str, each[1:]))}")
    return "; ".join(told) or "as asked"


def _summary(found: "xr.Dataset", ideal: int) -> list[str]:
    """In sentences: clusters, sums, phases, inheritance, and what another setting changes."""
    lines = [*_of_clusters(found, ideal), *_of_phases(found), *_of_inheritance(found)]
    if "weight_distance" in found:
        lines += _of_moves(found)
    return [*lines, *_of_thresholds(found)]


def _of_clusters(found: "xr.Dataset", ideal: int) -> list[str]:
    success = found["successful"].values.astype(bool)
    as_ideal = success & (found["clusters"].values == ideal)
    whole = found["label"].isin(["ideal", "corrected", "part of the values"]).values
    congruent = found["sum_congruent"].values.astype(bool)
    share = found["sum_share"].values[congruent]
    least = f" (it explains at least {100 * share.min():.1f}% of the variance of xi)" if share.size else ""
    return [
        f"{success.sum()} runs are successful; {as_ideal.sum()} of them have the {ideal} clusters of an ideal circuit, "
        f"{(as_ideal & whole).sum()} of these all its invariances; {(success & whole).sum()} have all in total",
        f"{(success & congruent).sum()} of {success.sum()} successful and {(~success & congruent).sum()} of "
        f"{(~success).sum()} other runs encode a sum of whole steps that has the target's residue"
        f"{least}",
    ]


def _of_phases(found: "xr.Dataset") -> list[str]:
    import numpy as np

    from analysis.output.tables import format_percent, format_plus_minus
    from analysis.statistics.intervals import binomial_interval, mean_interval

    both = found["successful"].values.astype(bool) & np.isfinite(found["formed"].values + found["separated"].values)
    formed, separated = (found[name].values[both] for name in ("formed", "separated"))
    if not both.any():
        return ["no successful run shows when its clusters formed"]
    later, earlier = int((separated > formed).sum()), int((separated < formed).sum())
    apart = separated - formed
    return [
        f"clusters form at epoch {format_plus_minus(mean_interval(formed))}, are told apart "
        f"{format_plus_minus(mean_interval(apart))} epochs later (median {np.median(apart):g}; {len(apart)} runs)",
        f"told apart later than formed: {format_percent(binomial_interval(later, len(apart)))}% of runs, earlier: "
        f"{earlier}, "
        f"in the same frame: {len(apart) - later - earlier}",
    ]


def _of_inheritance(found: "xr.Dataset") -> list[str]:
    import numpy as np

    from analysis.clustering_heads.init_dependence import compare_same_seed

    values, success = found["inherited"].values, found["successful"].values.astype(bool)
    lines = [f"attention at the start and at the end correlate: {_told(compare_same_seed(values, higher=True))}"]
    if success.sum() > 1:
        lines.append(f"of successful runs: {_told(compare_same_seed(values[np.ix_(success, success)], higher=True))}")
    return lines


def _of_moves(found: "xr.Dataset") -> list[str]:
    from analysis.clustering_heads.init_dependence import ENDPOINT_MEASURES, compare_same_seed

    return [
        f"{meaning}, with the other setting: {_told(compare_same_seed(found[name].values, higher))}"
        for name, (meaning, higher) in ENDPOINT_MEASURES.items()
    ]


def _told(of: "SameSeedComparison") -> str:
    from analysis.output.tables import format_plus_minus

    p = f", p = {of.p:.2g}" if of.p == of.p else ""
    return f"{format_plus_minus(of.own, 2)}, different seeds {format_plus_minus(of.others, 2)}{p} ({of.runs} runs)"


def _of_thresholds(found: "xr.Dataset") -> list[str]:
    """How many labels change with each threshold."""
    changes = []
    for name in found["threshold"].values:
        one = found["sensitivity"].sel(threshold=name)
        moved = [int(abs(one.sel(factor=factor) - one.sel(factor=1.0)).sum()) // 2 for factor in (0.5, 2.0)]
        changes.append(f"{name} {moved[0]}, {moved[1]}")
    return ["runs that change label, net, with a threshold halved, doubled: " + "; ".join(changes)]


def _legend(ideal: int, lacking: bool) -> list[str]:
    """What stands in the tables: of labels, and of successful runs that lack something where there are any."""
    from analysis.clustering_heads.labels import CIRCUIT_LABEL_MEANINGS

    told = [f"{label}: {meaning}" for label, meaning in CIRCUIT_LABEL_MEANINGS.items()]
    lines = [
        *("; ".join(told[place : place + 2]) for place in range(0, len(told), 2)),
        f"above .98: test accuracy; {ideal} clusters: of sequence embeddings xi, as an ideal circuit has; right sum:",
        "xi encodes a sum of the tokens that has the target's residue; attention: on counting positions; leak,",
        "unswapped: largest share of the variance of xi that the token at a spurious position, and the order of two",
        "counting ones, makes (means ± half a 95% interval; shares with exact intervals)",
    ]
    if lacking:
        lines += [
            "sums: how many values the sum takes that xi encodes; counts: what tokens 1, 2, ... at a position add to",
            "it, where not as asked: x8 as 2 is token 1 at position 8 adding 2, which modulo 2 is as good as 0",
        ]
    return lines


# ------------------------------------------------------------------------------------------------- the command


def main(options: Options) -> None:
    """Judge the runs of a trajectory; print the tables, write the result and draw the picture."""
    from analysis.clustering_heads.clusters import ideal_cluster_count
    from analysis.output import tables
    from analysis.plots.circuits_figure import plot_circuits
    from dynamics.errors import TrajectoryError
    from dynamics.networks.from_trajectory import clustering_head_of
    from dynamics.trajectory.reader import open_trajectory

    if options.other is not None and _same(options.trajectory, options.other):
        raise TrajectoryError(f"{options.other}: found the same file as the first, expected another")
    trajectory, out = open_input(options, "circuits")
    network = clustering_head_of(trajectory)
    other = None if options.other is None else open_trajectory(options.other)
    found = measure_circuits(trajectory, other, options.frames)
    if options.other is not None:
        found.attrs["other"] = options.other.name
    write_result_and_picture(options, "circuits", _TITLE, found, plot_circuits(found, trajectory), out)
    ideal = ideal_cluster_count(network.settings)
    tables.print_rows(_header(ideal), _COLUMNS, _label_rows(found, ideal), options.csv)
    lacking = _missing_invariances_table(found)
    for text in ("\n".join(_summary(found, ideal)), lacking, "\n".join(_legend(ideal, bool(lacking)))):
        print(f"\n{text}" if text else "", file=options.say)


def _same(first: Path, second: Path) -> bool:
    """Whether two paths lead to one file, if there is one."""
    return first.exists() and second.exists() and first.samefile(second)


if __name__ == "__main__":
    run_command(main, Options, "analysis.circuits")
