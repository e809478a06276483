"""The transformer of VC learning sparse modular addition: train an ensemble, count successes, draw.

python -m sims.sparse --runs 100
python -m sims.sparse --from runs/sparse-HASH.nc --vocab 3 --only-successful
python -m sims.sparse --branch runs/sparse-HASH.nc --step 16000 --norm rms-smooth
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from analysis import clustering_heads, output, plots
from analysis.command_line.options import SparseOptions
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, SparseSettings, StartRuns
from sims.command_line import origin
from sims.command_line.amount import EnsembleOptions
from sims.command_line.ensemble import run_ensemble


@dataclasses.dataclass(frozen=True)
class SparseOriginOptions(origin.OriginOptions):
    """Another run to begin from: its weights, for a training of their own, or its exact state."""

    start: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Trajectory whose weights are the first ones of a new training with a fresh optimizer. Settings that are not
    given are its own; a larger vocabulary or table gets new rows."""
    only_successful: bool = False
    """Of --from, only the runs that end above .98 test accuracy."""
    step: int | None = None
    """Step of --branch, or recorded step of --from, whose default is the last."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Train transformers of one layer on sparse modular addition (VC sections 2 to 5): writes the trajectory,
    prints how many succeed and how accurate they are, and saves a picture of losses and accuracies."""

    settings: SparseOptions = dataclasses.field(default_factory=SparseOptions)
    epochs: int | None = None
    """How long to train; more epochs than before go on with a run. None is 1000."""
    amount: EnsembleOptions = dataclasses.field(default_factory=EnsembleOptions)
    origin: SparseOriginOptions = dataclasses.field(default_factory=SparseOriginOptions)
    csv: Path | None = None
    """Also write the table, as numbers, to a CSV file; - is the terminal."""


def _options_with_settings(settings: SparseSettings, amount: EnsembleOptions) -> Options:
    """Options with these settings, and otherwise as they are."""
    return Options(SparseOptions.of(settings), amount=amount)


def sparse_defaults(arguments: Sequence[str]) -> Options | None:
    """Those of a command line that names a run to go on from: its settings and its runs."""
    branch, source = (origin.option_value(option, arguments) for option in ("branch", "from"))
    if not source:
        return origin.branch_defaults(_options_with_settings, SparseSettings.system)(arguments)
    if branch is not None:
        raise SettingsError("branch", branch, "no value beside --from: either its weights or its exact state")
    from dynamics.training.finetuning import successful_runs

    trajectory = origin.open_origin(source, SparseSettings.system, "from")
    found = origin.options_from_trajectory(
        _options_with_settings, trajectory, start="random", start_step=0, start_runs="seed"
    )
    table = found.settings.table if _is_larger_table(found.settings.table, arguments) else 0
    runs, seed = found.amount.runs, found.amount.seed
    if origin.flag_is_set("only-successful", arguments):
        runs, seed = int(successful_runs(trajectory).sum()), 0
    if runs == 0:
        raise SettingsError("only_successful", f"no run of {source} above .98", "a trajectory that has some")
    return dataclasses.replace(
        found,
        settings=dataclasses.replace(found.settings, table=table),
        amount=dataclasses.replace(found.amount, runs=runs, seed=seed),
    )


def _is_larger_table(table: int, arguments: Sequence[str]) -> bool:
    """Whether a table is as large as the vocabulary that a command line gives."""
    try:
        return int(origin.option_value("vocab", arguments) or 0) <= table
    except ValueError:  # which parsing will say
        return True


def _transfer_settings(settings: SparseSettings, chosen: SparseOriginOptions) -> SparseSettings:
    """Settings that begin where the options say. Raises SettingsError."""
    if chosen.start is None:
        if chosen.only_successful:
            raise SettingsError("only_successful", "True", "a choice only with a trajectory to start --from")
        return settings
    step = -1 if chosen.step is None else chosen.step
    which: StartRuns = "successful" if chosen.only_successful else "seed"
    return dataclasses.replace(settings, start=str(chosen.start), start_step=step, start_runs=which)


def main(options: Options) -> None:
    """Train, or find, the ensemble; print and draw how it learned."""
    say = sys.stderr if str(options.csv) == "-" else sys.stdout
    left = dataclasses.replace(options.origin, step=None) if options.origin.start else options.origin
    try:
        settings = _transfer_settings(options.settings.settings, options.origin)
        path, trajectory = run_ensemble(settings, options.epochs, options.amount, left, say, "epochs")
    except SettingsError as error:
        named = {"start": "from", "start_step": "step", "start_runs": "only_successful"}
        raise SettingsError(named.get(error.field, error.field), error.found, error.allowed) from None

    picture = path.with_suffix(".png")
    plots.save_figure(plots.plot_learning(trajectory), picture)
    print(f"picture     {picture}", file=say)
    columns = clustering_heads.LEARNING_COLUMNS
    output.output_table(clustering_heads.learning_table(trajectory), columns, options.csv)


if __name__ == "__main__":
    run_command(main, Options, "sims.sparse", sparse_defaults)
