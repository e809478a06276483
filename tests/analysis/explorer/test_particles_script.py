"""The particles in JavaScript against the Python system, with Node."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis import explorer
from analysis.explorer import particle_law, story_data
from analysis.structures import count_imperfections, norm_ratio
from dynamics import ParticleSettings, randomness
from dynamics.forces import CA, Force
from dynamics.particles import ParticleSystem

SCRIPT = Path(explorer.__file__).parent / "particles.js"
LAW = SCRIPT.with_name("particle_law.js")
STEPS = 100
RUN = """
require(process.argv[1])
require(process.argv[2])
const {starts, settings, steps, law} = JSON.parse(require("fs").readFileSync(0))
if (law) settings.law = new Function("TINY", `return ${law}`)(1e-280)
console.log(JSON.stringify(starts.map((start) => {
  const particles = new Particles(start, settings)
  const frames = []
  for (let step = 0; step <= steps; step++) {
    if (step) particles.advance()
    frames.push([...particles.x])
  }
  return {frames, imperfections: particles.imperfections(), norm_ratio: particles.normRatio()}
})))
"""


@pytest.fixture(scope="module")
def node():
    """The path of Node."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("no Node")
    return program


def run_script(node, starts, steps, settings, law=None):
    """The runs that the script computes from initial positions (run, token, axis)."""
    text = json.dumps(
        {"starts": starts.tolist(), "settings": settings, "steps": steps, "law": law}
    )
    command = [node, "-e", RUN, str(LAW), str(SCRIPT)]
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
    runs = run_script(node, starts, STEPS, {"fa": fa})
    frames = np.array([run["frames"] for run in runs]).reshape(10, STEPS + 1, n, 2)
    for step in range(STEPS + 1):
        if step:
            state = system.advance(state, 1)
        np.testing.assert_allclose(frames[:, step], state.embedding, rtol=1e-9)
    assert [run["imperfections"] for run in runs] == count_imperfections(
        state.embedding
    ).tolist()
    np.testing.assert_allclose(
        [run["norm_ratio"] for run in runs], norm_ratio(state.embedding), rtol=1e-9
    )


OTHER_LAWS = {
    "strengths": {"repulsion": "exp(-r)", "alignment": "c > 0.5", "fa": 0.3},
    "table": {"attraction": "interp(r, [0, 1, 3], [1, 0.5, 0])", "gr": 2.0},
    "cohesion": {"law": (*CA, Force("cohesion", "all", "difference", "-r", 0.01))},
    "at the same place": {
        "law": (
            Force("turn", "all", "other", "sqrt(1 - c**2)", 0.5),
            Force("out", "all", "difference", "where(r < 1, 1, 1/r)", "gr"),
            Force("in", "like", "difference", "-r**2", 0.1, "magnitude", "out"),
        )
    },
}


@pytest.mark.parametrize("changes", OTHER_LAWS.values(), ids=OTHER_LAWS)
def test_script_and_system_agree_under_another_law(node, changes):
    settings = ParticleSettings(n=9, step_size=0.01, **changes)
    system = ParticleSystem(settings)
    starts = randomness.normal_samples(np.arange(5), "particles/start", (9, 2))
    coincident = np.array([[1.0, 0.5], [-1.0, -0.5], [0.0, 0.0]]).repeat(3, axis=0)
    starts[0] = coincident  # has pair sums at the origin, for one step
    state = system.state_from_positions(starts)
    given = {"fa": settings.fa, "gr": settings.gr, "stepSize": settings.step_size}
    law = particle_law.law_as_javascript(settings)
    runs = run_script(node, starts, 20, given, law)
    frames = np.array([run["frames"] for run in runs]).reshape(5, 21, 9, 2)
    for step in range(21):
        if step:
            state = system.advance(state, 1)
        compared = slice(step > 1, None)
        np.testing.assert_allclose(
            frames[compared, step], state.embedding[compared], rtol=1e-8, atol=1e-12
        )


def test_the_law_is_that_of_the_default_settings():
    assert LAW.read_text() == particle_law.law_script()


def test_starts_are_those_of_the_system():
    text = (story_data.FOLDER / "particle_starts.js").read_text()
    assert text == story_data.particle_starts()


def test_particles_without_python_are_small():
    files = (LAW, SCRIPT, story_data.FOLDER / "particle_starts.js")
    assert sum(path.stat().st_size for path in files) < 60_000
