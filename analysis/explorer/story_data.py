"""Data of the story and of the particles without Python, in compact files beside this
one.

python -m analysis.explorer.story_data      # write them again

All values are dimensionless."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from analysis.committors import committor
from dynamics import ModularSettings, ParticleSettings, randomness, simulate
from dynamics.particles import ParticleSystem

FOLDER = Path(__file__).parent
SEEDS = 30
NETWORK_FRAMES = 200
DECISION_SEED, DECISION_STEPS, COPIES, SHIFT = 28, 100, 64, 0.2
"""The run of the chapter on the decision, the copies of each state, and the standard
deviation of their shifts."""


def particle_starts() -> str:
    """A script with the initial positions (seed, token, axis) of `sims.particles` for
    the first seeds, before they are normalised, exact to the last bit."""
    starts = randomness.normal_samples(np.arange(SEEDS), "particles/start", (17, 2))
    return f"globalThis.ParticleStarts = {json.dumps(starts.tolist())}\n"


def network_record() -> dict[str, Any]:
    """A network in training and particles from the same start: frames (frame, token,
    axis)."""
    network = simulate(ModularSettings(), runs=1, progress=False)
    frames = network["embedding"].values[0, :NETWORK_FRAMES]
    system = ParticleSystem(ParticleSettings(fa=3.0))
    state = system.state_from_positions(frames[:1].astype(np.float64))
    particles = []
    for _ in range(len(frames)):
        particles.append(state.embedding[0])
        state = system.advance(state, 2)
    return {
        "first": np.round(frames.astype(float), 3).tolist(),
        "second": np.round(particles, 3).tolist(),
        "rate": 25,
    }


def decision_record() -> dict[str, Any]:
    """A run of particles, and its committor: the share of shifted copies of its states
    that become circles, by step."""
    run = simulate(
        ParticleSettings(fa=1.0),
        runs=1,
        seed=DECISION_SEED,
        steps=300,
        every=1,
        progress=False,
    )
    steps = list(range(0, DECISION_STEPS + 1, 5))
    result = committor(run, "circle", steps, COPIES, SHIFT)
    return {
        "first": np.round(run["embedding"].values[0, steps], 3).tolist(),
        "recorded": steps,
        "steps": steps,
        "shares": result["committor"].values.ravel().tolist(),
        "rate": 4,
    }


def story_script() -> str:
    """A script with the recorded runs of the story."""
    records = {"network": network_record(), "decision": decision_record()}
    return f"globalThis.StoryData = {json.dumps(records, separators=(',', ':'))}\n"


def write_story_data() -> None:
    """Write all files of the story."""
    (FOLDER / "particle_starts.js").write_text(particle_starts())
    (FOLDER / "story_data.js").write_text(story_script())


if __name__ == "__main__":
    write_story_data()
