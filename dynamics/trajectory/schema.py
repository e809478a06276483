"""The schema of a trajectory: its variables, attributes and dimensions, and a check
that a dataset follows it.

Dimensions are identified by name, never by order. NaN never means "missing": a run that
has diverged, or has stopped at a condition, repeats its last frame after `last_step`,
and readers mask those frames. docs/guides/trajectory-format.md describes the format."""

import json
from collections.abc import Hashable
from dataclasses import fields
from typing import Any, NamedTuple

import msgspec
import numpy as np
import xarray as xr

from dynamics.errors import TrajectoryError, UnknownSystem
from dynamics.settings import (
    SETTINGS_CLASSES,
    SYSTEM_MODULES_VARIABLE,
    RecordedSettings,
    Settings,
    SettingsError,
    import_external_systems,
)

SCHEMA_VERSION = 1
CONVENTIONS = "CF-1.11"
"""The attribute `Conventions` of all files."""

RUNNING, DONE, DIVERGED, STOPPED = range(4)
STATUS_MEANINGS = ("running", "done", "diverged", "stopped")


class VariableSpec(NamedTuple):
    """Dimensions, allowed types and description of a variable, whose values are
    dimensionless."""

    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    long_name: str
    """Short enough for the label of an axis."""
    comment: str
    """What it is."""


_FLOAT = ("float32", "float64")

_FRAME_VARIABLES = {
    "embedding": (
        "token axis",
        "embedding",
        "positions of particles, or embeddings of tokens",
    ),
    "embedding_gradient": (
        "token axis",
        "gradient of the embedding",
        "gradient of the loss at the embedding of the previous frame; 0 at step 0",
    ),
    "gradient_norm": (
        "layer",
        "gradient norm",
        "norm of the gradient, or force, that the last update used; at step 0 the first",
    ),
    "update_norm": ("layer", "update norm", "norm of the last update; 0 at step 0"),
    "learning_rate": ("", "learning rate", "learning rate of the update that follows"),
    "loss": ("split", "loss", "mean cross-entropy over the whole split"),
    "accuracy": (
        "split",
        "accuracy",
        "fraction of the split that is classified correctly",
    ),
    "hidden_weight": ("hidden axis", "hidden weight", "W_h of the linear layer (CA)"),
    "hidden_bias": ("hidden", "hidden bias", "b_h of the linear layer (CA)"),
    "output_weight": ("class hidden", "output weight", "W_o of the output layer (CA)"),
    "output_bias": ("class", "output bias", "b_o of the output layer (CA)"),
    "position_embedding": (
        "position axis",
        "position embedding",
        "embeddings P(t) of the positions (VC); W_pos of a transformer",
    ),
    "query": ("axis", "query", "attention query q (VC)"),
    "value": ("axis axis_in", "value matrix", "value matrix V (VC)"),
    "receptor": ("hidden axis", "receptors", "receptors w_i of the MLP (VC)"),
    "receptor_bias": ("hidden", "receptor biases", "biases b_i of the MLP (VC)"),
    "assembler": ("hidden axis", "assemblers", "assemblers u_i of the MLP (VC)"),
    "transform_bias": ("axis", "bias of the MLP", "output bias of the MLP (VC)"),
    **{
        f"{name}_weight": (
            "block head head_axis axis",
            f"{name} weights",
            f"W_{name[0].upper()} of the attention",
        )
        for name in ("query", "key", "value")
    },
    "attention_output": (
        "block axis head head_axis",
        "attention output",
        "W_O of the attention",
    ),
    "mlp_input": ("block hidden axis", "MLP input weights", "W_in of the MLP"),
    "mlp_input_bias": ("block hidden", "MLP input biases", "b_in of the MLP"),
    "mlp_output": ("block axis hidden", "MLP output weights", "W_out of the MLP"),
    "mlp_output_bias": ("block axis", "MLP output biases", "b_out of the MLP"),
    "unembedding": ("class axis", "unembedding", "W_U, from embeddings to classes"),
}
"""Variables of each run and step: further dimensions, name for axes, and description."""

VARIABLES: dict[str, VariableSpec] = {
    **{
        name: VariableSpec(("run", "step", *dims.split()), _FLOAT, long_name, comment)
        for name, (dims, long_name, comment) in _FRAME_VARIABLES.items()
    },
    "status": VariableSpec(
        ("run",),
        ("int8",),
        "status of the run",
        "whether the run is running, done, diverged, or stopped at a condition",
    ),
    "last_step": VariableSpec(
        ("run",),
        ("int64",),
        "last step",
        "last step of the run; later frames repeat it",
    ),
    "step": VariableSpec(
        ("step",), ("int64",), "step", "optimizer updates, or steps of the integrator"
    ),
    "time": VariableSpec(
        ("step",),
        ("float64",),
        "time",
        "sum of the step sizes, or of the learning rates, up to the frame",
    ),
    "epoch": VariableSpec(
        ("step",), ("float64",), "epoch", "passes through the training split"
    ),
    "seed": VariableSpec(
        ("run",), ("int64",), "seed", "seed of the run, on which it depends alone"
    ),
}

DIMENSIONS = {
    "token": "number of the token or particle, from 0",
    "axis": "coordinate of an embedding, from 0",
    "axis_in": "coordinate of the embedding that the matrix takes, from 0",
    "layer": "array of parameters, by the name of its variable",
    "split": "part of the data",
    "hidden": "hidden unit, from 0",
    "class": "class, the number that the network answers, from 0",
    "position": "position in the sequence, from 0",
    "block": "block of the transformer, from 0",
    "head": "head of the attention, from 0",
    "head_axis": "coordinate within a head of the attention, from 0",
    "run": "number of the run, from 0",
    "checkpoint": "step of an exact restart state",
}
"""What the entries of a dimension are, as the comment of its coordinate."""

STATE_ARRAYS = {
    "exp_avg": "running mean of the gradient, of each parameter",
    "exp_avg_sq": "running mean of the squared gradient, of each parameter",
    "seeds": "seeds of the runs, by which their data are drawn",
    "updates": "number of updates of the optimizer",
    "weights": "all parameters of a run, one variable after the other",
}
"""What the arrays of exact restart states of networks are."""

MAX_LABEL = 30
"""Longest `long_name`, in characters: it is the label of an axis."""


_OTHER_COMMENTS = DIMENSIONS | STATE_ARRAYS

_TENSOR_COMMENTS = {
    "parameter": "values of the parameter {}",
    "buffer": "values of the buffer {}",
    "second_moment": (
        "running mean of the squared gradient of the parameter {}, divided by its bias"
        " correction"
    ),
    "activation": "output of the module {} for the probe",
}
"""Comments of variables of recorded models, by the part of their names before the first
dot."""


def axis_label(name: str) -> str:
    """The name of a variable as the label of an axis; the end of a long one, in which
    names of parameters differ."""
    words = name.replace("_", " ").strip()
    return words if len(words) <= MAX_LABEL else f"...{words[3 - MAX_LABEL :]}"


def describe_variables(dataset: xr.Dataset) -> xr.Dataset:
    """Give the variables and coordinates of a dataset the attributes `long_name`, at most
    30 characters, `units` and `comment`, in place; return the dataset.

    A `long_name` that is longer becomes the comment. Attributes of a variable precede
    those of the schema."""
    for key in dataset.variables:
        name = str(key)
        attrs = dataset[key].attrs
        known = VARIABLES.get(name)
        kind, _, tensor = name.partition(".")
        comment = _TENSOR_COMMENTS.get(kind, "").format(tensor) if tensor else ""
        comment = known.comment if known else _OTHER_COMMENTS.get(name, comment)
        label = known.long_name if known else axis_label(name)
        given = attrs.get("long_name", "")
        if len(given) > MAX_LABEL:
            comment = given
        elif given:
            label = given
            comment = comment or given
        attrs["long_name"] = label
        attrs.setdefault("comment", comment or label)
        if dataset[key].dtype.kind in "iufb":
            attrs.setdefault("units", "1")
    return dataset


REQUIRED_VARIABLES = ("status", "last_step", "step", "time", "seed")
NORM_VARIABLES = ("gradient_norm", "update_norm")
"""Variables of every run but those collected from checkpoints, which have no norms."""

RESERVED_NAMES = (
    "run",
    "step",
    "time",
    "epoch",
    "seed",
    "status",
    "last_step",
    "checkpoint",
)
"""Names of dimensions and variables that are added when a file is written."""

DEFINITIONS = "definitions"
"""Attribute of a recording, and name in its restart states: what the arguments of
`dynamics.record` select, as JSON."""

OPERATION, SUM = "operation", "a + b"
"""Attribute of a model from outside that combines its numbers otherwise than by their
sum, and its value for the sum."""
EMBEDDING_LAYER = "embedding_layer"
"""Attribute of a recorded model: the name of the layer that contains its embedding;
empty if there is none."""
NOT_FOLLOWED = "not_followed"
"""Attribute of a recorded model: what of its training could not be recorded, in words;
missing if nothing."""
INCOMPLETE_SINCE = "incomplete_since"
"""Attribute of a recorded model: the first step at which the model has parameters whose
values are not recorded; missing if it never has."""
ACTIVATION = "activation."
"""What the names of the variables of recorded activations begin with."""

REGISTERED_PARTS = ("optimizer", "schedule")
"""Settings whose values may be registered by a user's module."""

REQUIRED_ATTRIBUTES = {
    "Conventions": str,
    "schema_version": int,
    "system": str,
    "numerics_version": int,
    "modulus": int,
    "config_json": str,
    "seed": int,
    "runs": int,
    "every": int,
    "steps": int,
    "record": str,
    "created_at": str,
    "git_commit": str,
    "package_versions": str,
    "device": str,
    "threads": int,
    "ensemble_width": int,
}
"""Root attributes of every file, with their types."""


def read_settings(trajectory: xr.Dataset) -> Settings:
    """The settings of a trajectory.

    Parameters
    ----------
    trajectory : xarray.Dataset

    Returns
    -------
    ParticleSettings, ModularSettings, SparseSettings or those of a registered system

    Raises
    ------
    TrajectoryError
        If the system is not known, or the settings are not valid.

    Examples
    --------
    >>> from dynamics import ParticleSettings, read_settings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5, fa=2.0), runs=2, steps=3)
    >>> read_settings(trajectory) == ParticleSettings(n=5, fa=2.0)
    True
    """
    kind = _settings_class(trajectory.attrs.get("system"))
    try:
        values = json.loads(trajectory.attrs.get("config_json", ""))
        unknown = set(values) - {field.name for field in fields(kind)}
        if unknown:
            raise TrajectoryError(
                f"attribute config_json: unknown setting {sorted(unknown)[0]!r}"
            )
        return msgspec.convert(values, kind, strict=True)
    except (ValueError, TypeError) as error:  # JSON, types and SettingsError alike
        cause = error.__cause__
        if isinstance(cause, SettingsError) and cause.field in REGISTERED_PARTS:
            raise UnknownSystem(f"attribute config_json: {cause}") from None
        raise TrajectoryError(f"attribute config_json: {error}") from None


def must_be_finite(name: str, system: object) -> bool:
    """Whether a variable of a file of a system has finite values only: of recorded
    models these are the weights; a loss, for example, is recorded as it is."""
    return (
        system != RecordedSettings.system
        or name in ("embedding", "embedding_gradient")
        or name.startswith(("parameter.", "second_moment."))
    )


def time_unit(trajectory: xr.Dataset) -> tuple[str, float]:
    """The unit of a trajectory's displayed time, epoch or step, and its length in
    steps.

    The unit is the epoch if the system has epochs, unless a branch has changed their
    length."""
    steps = read_settings(trajectory).epoch_steps
    return (
        ("epoch", float(steps))
        if steps and not trajectory.attrs.get("clock_step", 0)
        else ("step", 1.0)
    )


def _settings_class(system: object) -> Any:
    """The settings class of a system; modules that register systems are imported if it
    is not known."""
    if system == RecordedSettings.system:
        return RecordedSettings
    if system not in SETTINGS_CLASSES:
        try:
            import_external_systems()
        except SettingsError as error:
            raise UnknownSystem(
                f"attribute system: found {system!r}, not known; {error}"
            ) from None
    if system not in SETTINGS_CLASSES:
        how = (
            f"others if {SYSTEM_MODULES_VARIABLE} lists the module that registers them,"
            " see docs/guides/own-system.md"
        )
        raise UnknownSystem(
            f"attribute system: found {system!r}, known are"
            f" {', '.join(SETTINGS_CLASSES)} ({how})"
        )
    return SETTINGS_CLASSES[system]


# --------------------------------------------------------------------------- validation


def validate_trajectory(trajectory: xr.Dataset) -> xr.Dataset:
    """Check that a dataset follows the schema; return the dataset. Raises
    TrajectoryError."""
    for name, kind in REQUIRED_ATTRIBUTES.items():
        value = trajectory.attrs.get(name)
        if not isinstance(value, kind) and not (
            kind is int and isinstance(value, np.integer)
        ):
            raise TrajectoryError(
                f"attribute {name}: found {value!r}, expected {kind.__name__}"
            )
    if trajectory.attrs["schema_version"] != SCHEMA_VERSION:
        version = trajectory.attrs["schema_version"]
        raise TrajectoryError(
            f"attribute schema_version: found {version}, this program reads"
            f" {SCHEMA_VERSION}"
        )
    if not trajectory.sizes.get("run"):
        raise TrajectoryError(
            "dimension run: missing or empty; isel(run=[3]) selects a run and keeps the"
            " dimension"
        )
    collected = trajectory.attrs["system"] == RecordedSettings.system
    for name in (*REQUIRED_VARIABLES, *(() if collected else NORM_VARIABLES)):
        if name not in trajectory.variables:
            raise TrajectoryError(f"variable {name}: missing")
    for variable in trajectory.variables:
        _validate_variable(variable, trajectory)
    _validate_steps(trajectory)
    _validate_runs(trajectory)
    read_settings(trajectory)
    return trajectory


def check_variable_recorded(trajectory: xr.Dataset, name: str) -> None:
    """Raise TrajectoryError, which says how to record it, unless a trajectory contains
    the variable `name`."""
    if name in trajectory:
        return
    system = trajectory.attrs.get("system")
    if system != RecordedSettings.system:
        only_metrics = trajectory.attrs.get("record") == "metrics"
        reason = (
            "a run recorded with record=metrics contains no weights"
            if only_metrics and name not in ("loss", "accuracy")
            else f"trajectories of {system} do not have it"
        )
        raise TrajectoryError(f"variable {name}: missing; {reason}")
    how = {
        "embedding": "dynamics.record and sims.collect take the name of the embedding",
        "loss": "pass loss=... to recording.step, or evaluate=... to dynamics.record",
        "embedding_gradient": (
            "dynamics.record(..., embedding_gradient=True) records it"
        ),
        "accuracy": (
            "pass accuracy=... to recording.step, or evaluate=... to dynamics.record"
        ),
    }.get(
        name,
        (
            "checkpoints contain no norms, dynamics.record measures them"
            if name in NORM_VARIABLES
            else "dynamics.record records it if it is named in variables=..."
        ),
    )
    raise TrajectoryError(f"variable {name}: missing; {how}")


def adds_numbers(trajectory: xr.Dataset) -> bool:
    """Whether the model of a trajectory adds its numbers, as far as it says: a model
    file may name another operation."""
    return trajectory.attrs.get(OPERATION, SUM) == SUM


def numbers_modulo(trajectory: xr.Dataset) -> int:
    """The modulus N of a trajectory whose first N tokens are the numbers modulo N.
    Raises TrajectoryError if there is none."""
    check_variable_recorded(trajectory, "embedding")
    n, tokens = trajectory.attrs["modulus"], trajectory.sizes["token"]
    if n == 0:
        how = "if they are, dynamics.record and sims.collect take the modulus"
        raise TrajectoryError(
            f"attribute modulus: found 0, as the tokens are no numbers modulo N; {how}"
        )
    if tokens < n:
        raise TrajectoryError(
            f"dimension token: found {tokens}, expected the numbers modulo {n}"
        )
    return n


def _validate_variable(name: Hashable, trajectory: xr.Dataset) -> None:
    expected = VARIABLES.get(str(name))
    variable = trajectory[name]
    if expected is None:  # a system's own variable, or a coordinate
        return
    if set(variable.dims) != set(expected.dims) or len(variable.dims) != len(
        expected.dims
    ):
        raise TrajectoryError(
            f"variable {name}: found dimensions {variable.dims}, expected {expected.dims}"
        )
    if variable.dtype.name not in expected.dtypes:
        raise TrajectoryError(
            f"variable {name}: found {variable.dtype}, expected"
            f" {' or '.join(expected.dtypes)}"
        )


def _validate_steps(trajectory: xr.Dataset) -> None:
    steps = trajectory["step"].values
    first = trajectory.attrs.get("branched_at", 0)
    if steps.size == 0 or steps[0] != first or (np.diff(steps) <= 0).any():
        raise TrajectoryError(
            f"variable step: found {steps[:3]}..., expected increasing from {first}"
        )
    if not np.isfinite(trajectory["time"].values).all():
        raise TrajectoryError("variable time: found a value that is not finite")


def _validate_runs(trajectory: xr.Dataset) -> None:
    status, last = trajectory["status"].values, trajectory["last_step"].values
    steps = trajectory["step"].values
    if status.size == 0 or not np.isin(status, range(len(STATUS_MEANINGS))).all():
        raise TrajectoryError(
            f"variable status: found {status[:3]}, expected 0 to"
            f" {len(STATUS_MEANINGS) - 1}"
        )
    first = (
        0 if "branched_at" in trajectory.attrs else steps[0]
    )  # a run may have diverged before the branch
    if (last < first).any() or (last > steps[-1]).any():
        reached = f"{last.min()}..{last.max()}"
        raise TrajectoryError(
            f"variable last_step: found {reached}, expected steps from {first} to"
            f" {steps[-1]}; truncate_trajectory sets it, and a selection of frames"
            " keeps the last one"
        )
    runs = trajectory.attrs["runs"]
    if runs != status.size:
        raise TrajectoryError(
            f"attribute runs: found {runs}, expected the size of run, {status.size}"
        )
    if trajectory.attrs["seed"] != trajectory["seed"].values[0]:
        raise TrajectoryError("variable seed: does not begin with the attribute seed")
    if len(np.unique(trajectory["seed"].values)) != status.size:
        raise TrajectoryError(
            "variable seed: found a seed twice, expected one for each run"
        )
