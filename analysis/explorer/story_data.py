"""Data of the story and of the particles without Python, in compact files beside this
one.

python -m analysis.explorer.story_data      # write them again

All values are dimensionless."""

import json
from pathlib import Path

import numpy as np

from dynamics import randomness

FOLDER = Path(__file__).parent
SEEDS = 30


def particle_starts() -> str:
    """A script with the initial positions (seed, token, axis) of `sims.particles` for
    the first seeds, before they are normalised, exact to the last bit."""
    starts = randomness.normal_samples(np.arange(SEEDS), "particles/start", (17, 2))
    return f"globalThis.ParticleStarts = {json.dumps(starts.tolist())}\n"


def write_story_data() -> None:
    """Write all files of the story."""
    (FOLDER / "particle_starts.js").write_text(particle_starts())


if __name__ == "__main__":
    write_story_data()
