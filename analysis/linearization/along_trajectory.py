"""The linearised flow along a trajectory, in one format for networks and for particles.

growth_rate and rotation_rate (run, step, mode) are the eigenmodes of the linearised
flow: for networks minus the eigenvalues of the training loss's Hessian, for particles
the eigenvalues of the Jacobian of the normalised motion. growing_modes and kind (run,
step) are the number of growing modes and the resulting kind of stability
(`analysis.linearization.eigenmodes`); sharpness (run, step) is the largest rate of
decay; steps are stable if it is at most `limit` (run, step), without momentum 2 / lr;
relative_sharpness (run, step) is its fraction of the limit. For networks there are also the variables of the modules `network_curvature`,
`plateau_escapes` and, for VC's network, `normalisation_margin` of this package, for
particles those of `force_jacobian`. Missing values are NaN, also after the last mode of
frames that have fewer modes than others; kind is then -1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from analysis import linearization
from analysis.linearization.eigenmodes import (
    STABILITY_KINDS,
    Eigenmodes,
    StateModes,
    count_growing,
    stability_kinds,
)
from analysis.linearization.force_jacobian import (
    force_spectra,
    particle_state_modes,
)
from analysis.output.results import dimensionless
from dynamics import networks
from dynamics.errors import TrajectoryError
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    RecordedSettings,
    Settings,
    SparseSettings,
)
from dynamics.trajectory.schema import read_settings
from dynamics.trajectory.selection import Selection, selected_frames

_FRAMES = 20
"""Default number of frames."""
_LARGE = 400
"""Number of parameters above which a network has fewer frames."""
_FEWER_FRAMES = 10
"""That number of frames."""


def linearize_trajectory(
    trajectory: xr.Dataset, frames: Sequence[int], quiet: bool = False
) -> xr.Dataset:
    """The linearised flow of networks or particles at some frames of a trajectory.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of particles, or of a network with its weights.
    frames : sequence of int
        Indices along `step`, such as those of `frame_indices`.
    quiet : bool
        Show no progress bar.

    Returns
    -------
    xr.Dataset
        Eigenmodes, sharpness and the other variables listed in the module docstring.

    Raises
    ------
    TrajectoryError

    Examples
    --------
    >>> import dynamics
    >>> settings = dynamics.ParticleSettings(n=5)
    >>> trajectory = dynamics.simulate(settings, runs=2, steps=10, every=5, progress=False)
    >>> found = linearize_trajectory(trajectory, [0, 2], quiet=True)
    >>> dict(found["growth_rate"].sizes)  # 5 x 2 coordinates less mean, scale and rotation
    {'run': 2, 'step': 2, 'mode': 6}
    """
    settings = _check_system(trajectory)
    if isinstance(settings, ParticleSettings):
        spectra = force_spectra(trajectory, list(frames), quiet)
        rates = spectra["growth_rate"].values
        fastest = -np.fmin.reduce(rates, axis=-1, initial=np.inf)
        fastest = np.where(np.isfinite(fastest), fastest, np.nan)
        meaning = dimensionless("largest rate of decay")
        dims = ("run", "step")
        spectra["sharpness"] = (dims, fastest, meaning)
        limit = np.full_like(fastest, 2 / spectra.attrs["lr"])
        meaning = dimensionless("rate of decay above which a step is unstable")
        spectra["limit"] = (dims, limit, meaning)
        meaning = dimensionless("largest rate of decay over its limit")
        spectra["relative_sharpness"] = (dims, fastest / limit, meaning)
        spectra.attrs["limit_formula"] = "2/lr"
    else:  # through the package, so that torch is imported only for networks
        spectra = _with_rates(linearization.loss_curvature(trajectory, frames, quiet))
        parts = [spectra, linearization.measure_plateau_escapes(trajectory, quiet)]
        if isinstance(settings, SparseSettings):
            parts.append(
                linearization.measure_normalisation_margins(trajectory, frames, quiet)
            )
        spectra = xr.merge(
            parts, compat="override", join="exact", combine_attrs="override"
        )
    return _with_kinds(spectra).assign_attrs(system=settings.system)


def state_modes(states: xr.Dataset) -> Iterator[StateModes]:
    """The number of growing modes and the direction that grows fastest, of the state of
    each run.

    Parameters
    ----------
    states : xarray.Dataset
        A trajectory of particles, or of CA's or VC's network with its weights. Its
        first frame is used. The seeds of networks are those of their training data.

    Returns
    -------
    iterator of StateModes
        Of one run after the other.

    Raises
    ------
    TrajectoryError
        If the trajectory is of another system, or of too many particles.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=2, steps=4, progress=False)
    >>> first, second = state_modes(trajectory)
    >>> first.growing, first.fastest["embedding"].shape
    (3.0, (5, 2))
    """
    settings = _check_system(states)
    if isinstance(settings, ParticleSettings):
        return particle_state_modes(states, settings)
    # through the package, so that torch is imported only for networks
    return iter(linearization.network_state_modes(states))


def _check_system(trajectory: xr.Dataset) -> Settings:
    settings = read_settings(trajectory)
    kinds = (ParticleSettings, ModularSettings, SparseSettings)
    # a user's system may have settings that are derived from these
    systems = [kind.system for kind in kinds]
    if settings.system not in systems:
        raise TrajectoryError(
            f"attribute system: found {settings.system}, expected one of"
            f" {', '.join(systems)}"
        )
    return settings


def _with_rates(result: xr.Dataset) -> xr.Dataset:
    """The curvature of a network with the modes of gradient flow in place of
    eigenvalues."""
    values = result["eigenvalue"].values
    dims = ("run", "step", "mode")
    growth = (dims, -values, dimensionless("growth rate of a mode of gradient flow"))
    zero = np.where(np.isfinite(values), 0.0, np.nan)
    rotation = (dims, zero, dimensionless("rotation rate of a mode of gradient flow"))
    return result.drop_vars("eigenvalue").assign(
        growth_rate=growth, rotation_rate=rotation
    )


def _with_kinds(result: xr.Dataset) -> xr.Dataset:
    modes = Eigenmodes(result["growth_rate"].values, result["rotation_rate"].values)
    whole = result.attrs.get("parameters", result.sizes["mode"]) == result.sizes["mode"]
    count = count_growing(modes) if whole else np.full(modes.growth.shape[:-1], np.nan)
    values = np.array(list(STABILITY_KINDS.values()), np.int8)
    kind = {
        "long_name": "kind of the linearised flow",
        "flag_values": values,
        "flag_meanings": " ".join(STABILITY_KINDS),
    }
    dims = ("run", "step")
    meaning = dimensionless("number of growing modes")
    result["growing_modes"] = (dims, count, meaning)
    result["kind"] = (dims, stability_kinds(modes), kind)
    return result


def _parameters(trajectory: xr.Dataset) -> int:
    """Number of parameters that are trained; 0 for particles."""
    settings = read_settings(trajectory)
    if isinstance(settings, RecordedSettings):
        return settings.parameters
    if isinstance(_check_system(trajectory), ParticleSettings):
        return 0
    return sum(networks.network_of(trajectory).lengths)


def frame_indices(
    trajectory: xr.Dataset, frames: int | Selection | None = None
) -> list[int]:
    """Indices along `step` of selected frames, or of a number of evenly spaced frames
    with the first and the last.

    Default: 20 frames, or 10 of a network or model with more than 400 parameters.
    Raises SettingsError."""
    if frames is None or frames == Selection():
        frames = _FEWER_FRAMES if _parameters(trajectory) > _LARGE else _FRAMES
    return selected_frames(trajectory, frames).tolist()
