"""What a trajectory's flow is like near its recorded frames, in one format for networks and for particles.

growth_rate and rotation_rate (run, step, mode) are the modes of the linearised flow, see
`analysis.linearization.eigenmodes`: for
networks minus the eigenvalues of the training loss's Hessian, for particles the eigenvalues of the derivative of the
motion that normalisation leaves. growing_modes and kind (run, step) say how many grow; sharpness (run, step) is the
largest rate of decay, which steps of length `lr` follow stably up to `threshold` = 2 / lr. Networks have the shares of
movement and the layers of `analysis.linearization.network_curvature` beside these, and those at their escapes
(`analysis.linearization.plateau_escapes`), VC's network the distances of
`analysis.linearization.normalisation_margin`, and particles what
`analysis.linearization.force_jacobian` finds. NaN means no value, also behind the modes of frames that have fewer
than others;
kind is -1 where there is none.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.linearization.eigenmodes import STABILITY_KINDS, Eigenmodes, growing_mode_count, stability_kinds
from analysis.linearization.force_jacobian import force_spectra
from dynamics.errors import TrajectoryError
from dynamics.settings import ModularSettings, ParticleSettings, Settings, SettingsError, SparseSettings
from dynamics.trajectory.schema import read_settings

_STEPS = 20
"""Frames that are looked at where nobody says how many."""
LARGE, FEWER_STEPS = 400, 10
"""Parameters beyond which a network's are fewer, and how many."""


def linearize_trajectory(trajectory: xr.Dataset, places: Sequence[int], quiet: bool = False) -> xr.Dataset:
    """The linearised flow at the frames that stand at some places along `step`. Raises TrajectoryError."""
    settings = _linearised(trajectory)
    if isinstance(settings, ParticleSettings):
        found = force_spectra(trajectory, list(places), quiet)
        fastest = -np.fmin.reduce(found["growth_rate"].values, axis=-1, initial=np.inf)
        found["sharpness"] = (("run", "step"), fastest, {"long_name": "largest rate of decay", "units": "1"})
        found["sharpness"] = found["sharpness"].where(np.isfinite(fastest))
    else:
        found = _of_network(trajectory, places, quiet)
        if isinstance(settings, SparseSettings):
            from analysis.linearization.normalisation_margin import measure_normalisation_margins

            near = measure_normalisation_margins(trajectory, places, quiet)
            found = found.merge(near, compat="override", join="exact", combine_attrs="override")
    found.attrs["threshold"] = 2 / found.attrs["lr"]
    return _with_kinds(found).assign_attrs(system=settings.system)


def _linearised(trajectory: xr.Dataset) -> Settings:
    """The settings of a trajectory whose flow is known. Raises TrajectoryError."""
    settings, known = read_settings(trajectory), (ParticleSettings, ModularSettings, SparseSettings)
    if settings.system not in (each.system for each in known):
        names = ", ".join(each.system for each in known)
        raise TrajectoryError(f"attribute system: found {settings.system}, the flow is known of {names} alone")
    return settings


def _of_network(trajectory: xr.Dataset, places: Sequence[int], quiet: bool) -> xr.Dataset:
    from analysis.linearization.network_curvature import loss_curvature
    from analysis.linearization.plateau_escapes import measure_plateau_escapes  # torch, which particles do without

    found = loss_curvature(trajectory, places, quiet)
    found = found.merge(
        measure_plateau_escapes(trajectory, quiet), compat="override", join="exact", combine_attrs="override"
    )
    values = found["eigenvalue"].values
    dims = ("run", "step", "mode")
    growth = (dims, -values, {"long_name": "growth rate of a mode of gradient flow", "units": "1"})
    still = np.where(np.isfinite(values), 0.0, np.nan)
    rotation = (dims, still, {"long_name": "rotation rate of a mode of gradient flow", "units": "1"})
    return found.drop_vars("eigenvalue").assign(growth_rate=growth, rotation_rate=rotation)


def _with_kinds(found: xr.Dataset) -> xr.Dataset:
    modes = Eigenmodes(found["growth_rate"].values, found["rotation_rate"].values)
    whole = found.attrs.get("parameters", modes.growth.shape[-1]) == modes.growth.shape[-1]
    count = growing_mode_count(modes) if whole else np.full(modes.growth.shape[:-1], np.nan)
    flags = {
        "flag_values": np.array(list(STABILITY_KINDS.values()), np.int8),
        "flag_meanings": " ".join(STABILITY_KINDS),
    }
    each = ("run", "step")
    found["growing_modes"] = (each, count, {"long_name": "number of growing modes", "units": "1"})
    found["kind"] = (each, stability_kinds(modes), {"long_name": "kind of the linearised flow", **flags})
    return found


def frame_indices(trajectory: xr.Dataset, steps: int, at: Sequence[int] = ()) -> list[int]:
    """Where along `step` frames stand: those of recorded steps, or so many evenly spaced ones with both ends.

    Raises SettingsError.
    """
    recorded = trajectory["step"].values
    if at:
        missing = [step for step in at if step not in recorded]
        if missing:
            raise SettingsError("at", missing[0], f"recorded steps, from {recorded[0]} to {recorded[-1]}")
        return np.searchsorted(recorded, np.unique(at)).tolist()
    if steps < 1:
        raise SettingsError("steps", steps, "a whole number from 1")
    return np.unique(np.round(np.linspace(0, len(recorded) - 1, min(steps, len(recorded)))).astype(int)).tolist()


def default_frame_count(trajectory: xr.Dataset) -> int:
    """How many frames are looked at where nobody says: fewer of networks whose Hessians take long."""
    settings = _linearised(trajectory)
    if isinstance(settings, ParticleSettings):
        return _STEPS
    from dynamics.networks.from_trajectory import network_of  # torch, which particles do without

    return _STEPS if sum(network_of(trajectory).lengths) <= LARGE else FEWER_STEPS
