"""Options of `sims.sparse` to start training from the weights of another run, and the
resulting defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from analysis.command_line.options import SparseOptions
from dynamics import trajectory as trajectories
from dynamics.settings import SettingsError, SparseSettings, StartRuns
from sims import command_line
from sims.command_line.ensemble_options import (
    EnsembleOptions,
    OriginOptions,
    branch_defaults,
    flag_is_set,
    option_value,
)


@dataclasses.dataclass(frozen=True)
class SparseOriginOptions(OriginOptions):
    """Continue from another run: from its exact state, or only from its weights."""

    start: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Trajectory whose weights are the initial weights of a new training with a new
    optimizer state. Settings that are not given are those of the trajectory; a larger
    vocabulary or table adds rows. Or arrays (.npz), by variable. Default: random
    weights."""
    only_successful: bool = False
    """With --from, start only from runs whose final test accuracy is above 0.98."""
    step: int | None = None
    """Step at which to branch off (required with --branch), or recorded step whose
    weights are used with --from. Default: the last step, with --from."""


def transfer_defaults(
    make_options: Callable[..., Any], arguments: Sequence[str]
) -> Any:
    """The options that repeat the trajectory of --from or --branch, or None without
    either.

    make_options: makes the options of the command from settings and `EnsembleOptions`.
    Raises SettingsError."""

    def options(settings: SparseSettings, ensemble: EnsembleOptions) -> Any:
        return make_options(settings=SparseOptions.of(settings), ensemble=ensemble)

    branch = option_value("branch", arguments)
    source = option_value("from", arguments)
    if source and branch is not None:
        raise SettingsError(
            "branch", branch, "no value together with --from: use only one of the two"
        )
    if not source or _is_archive(source):
        return branch_defaults(options, SparseSettings.system)(arguments)
    trajectory = command_line.open_origin(source, SparseSettings.system, "from")
    fresh = {"start": "random", "start_step": 0, "start_runs": "seed"}
    defaults = command_line.options_from_trajectory(options, trajectory, **fresh)
    table = (
        defaults.settings.table
        if _is_larger_table(defaults.settings.table, arguments)
        else 0
    )
    runs = defaults.ensemble.runs
    seed = defaults.ensemble.seed
    if flag_is_set("only-successful", arguments):
        runs = int(trajectories.successful_runs(trajectory).sum())
        seed = 0
    if runs == 0:
        raise SettingsError(
            "only_successful",
            f"no run of {source} above .98",
            "a trajectory that has such runs",
        )
    return dataclasses.replace(
        defaults,
        settings=dataclasses.replace(defaults.settings, table=table),
        ensemble=dataclasses.replace(defaults.ensemble, runs=runs, seed=seed),
    )


def _is_archive(source: str | Path) -> bool:
    """Whether a file of initial weights contains arrays instead of a run."""
    return Path(source).suffix == ".npz"


def _is_larger_table(table: int, arguments: Sequence[str]) -> bool:
    """Whether the table is at least as large as the vocabulary that the arguments
    give."""
    try:
        return int(option_value("vocab", arguments) or 0) <= table
    except ValueError:  # the parser reports it
        return True


def transfer_settings(
    settings: SparseSettings, origin: SparseOriginOptions
) -> SparseSettings:
    """The settings of a training that starts from the trajectory of --from, if given.
    Raises SettingsError."""
    if origin.start is None:
        if origin.only_successful:
            raise SettingsError(
                "only_successful",
                "True",
                "a choice only with a trajectory to start --from",
            )
        return settings
    step = origin.step
    if step is None:
        step = 0 if _is_archive(origin.start) else -1
    which: StartRuns = "successful" if origin.only_successful else "seed"
    return dataclasses.replace(
        settings, start=str(origin.start), start_step=step, start_runs=which
    )
