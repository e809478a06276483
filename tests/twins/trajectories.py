"""Small trajectories with given contents."""

import functools

import numpy as np

from dynamics import ModularSettings, ParticleSettings, simulate


@functools.cache
def _particles(tokens, runs, frames, axes):
    settings = ParticleSettings(n=tokens, dim=axes)
    return simulate(settings, runs=runs, steps=max(frames - 1, 1), progress=False)


@functools.cache
def _modular(tokens, runs, frames):
    settings = ModularSettings(n=tokens, hidden=5)
    steps = max(frames - 1, 1)
    return simulate(settings, runs=runs, steps=steps, every=1, progress=False)


def _with_steps(trajectory, frames, steps, last):
    trajectory = trajectory.isel(step=slice(frames)).copy(deep=True)
    if steps is not None:
        size = float(trajectory["time"][-1]) / max(int(trajectory["step"][-1]), 1)
        times = np.asarray(steps) * (size or 1.0)
        trajectory = trajectory.assign_coords(
            step=np.asarray(steps, np.int64), time=("step", times)
        )
    trajectory["last_step"][:] = int(trajectory["step"][-1])
    for run, frame in (last or {}).items():
        trajectory["last_step"][run] = int(trajectory["step"][frame])
        trajectory["status"][run] = 2
    return trajectory


def particles(embedding, steps=None, last=None):
    """Particles at (run, step, token, axis), recorded at these steps; `last` has the
    last valid frame of each run that diverged."""
    runs, frames, tokens, axes = embedding.shape
    template = _particles(tokens, runs, frames, axes)
    result = _with_steps(template, frames, steps, last)
    result["embedding"] = (result["embedding"].dims, np.array(embedding, float))
    return result


def modular(tokens, runs, frames, steps=None, last=None):
    """Networks of CA after a few updates."""
    return _with_steps(_modular(tokens, runs, frames), frames, steps, last)
