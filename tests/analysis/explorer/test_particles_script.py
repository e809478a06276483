"""The particles in JavaScript against the Python system, with Node."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis import explorer
from analysis.explorer import story_data
from analysis.structures import circularity, count_imperfections
from dynamics import ParticleSettings, randomness
from dynamics.particles import ParticleSystem

SCRIPT = Path(explorer.__file__).parent / "particles.js"
STEPS = 100
RUN = """
require(process.argv[1])
const {starts, fa, steps} = JSON.parse(require("fs").readFileSync(0))
console.log(JSON.stringify(starts.map((start) => {
  const particles = new Particles(start, {fa})
  const frames = []
  for (let step = 0; step <= steps; step++) {
    if (step) particles.advance()
    frames.push([...particles.x])
  }
  return {frames, imperfections: particles.imperfections(), circularity: particles.circularity()}
})))
"""


@pytest.fixture(scope="module")
def node():
    """The path of Node."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no Node")
    return program


def run_script(node, starts, fa, steps):
    """The runs that the script computes from initial positions (run, token, axis)."""
    text = json.dumps({"starts": starts.tolist(), "fa": fa, "steps": steps})
    command = [node, "-e", RUN, str(SCRIPT)]
    result = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("n", "fa"), [(17, 0.5), (17, 1.0), (17, 2.0), (17, 4.0), (12, 1.0)]
)
def test_script_and_system_agree_in_every_step(node, n, fa):
    system = ParticleSystem(ParticleSettings(n=n, fa=fa))
    starts = randomness.normal_samples(np.arange(10), "particles/start", (n, 2))
    state = system.state_from_positions(starts)
    runs = run_script(node, starts, fa, STEPS)
    frames = np.array([run["frames"] for run in runs]).reshape(10, STEPS + 1, n, 2)
    for step in range(STEPS + 1):
        if step:
            state = system.advance(state, 1)
        np.testing.assert_allclose(frames[:, step], state.embedding, rtol=1e-9)
    assert [run["imperfections"] for run in runs] == count_imperfections(
        state.embedding
    ).tolist()
    np.testing.assert_allclose(
        [run["circularity"] for run in runs], circularity(state.embedding), rtol=1e-9
    )


def test_starts_are_those_of_the_system():
    text = (story_data.FOLDER / "particle_starts.js").read_text()
    assert text == story_data.particle_starts()


def test_particles_without_python_are_small():
    files = (SCRIPT, story_data.FOLDER / "particle_starts.js")
    assert sum(path.stat().st_size for path in files) < 60_000
