"""Data of the story and of the particles without Python, in compact files beside this
one.

python -m analysis.explorer.story_data      # writes them again; takes three minutes

A record of the story is a dictionary: `words`, a line for each frame; `rate`, frames a
second; `code`, the calls of `simulate` that repeat its runs; and `panels`. A panel has
a `label`, and `points` (frame, point, 2) or `lines`. Points are in units of half the
width of the picture, to three decimals. With them: `names` and `hues` (fractions of the
colour circle) of points, `arrows` (lists of a `colour` and `tips` (frame, point, 2)),
`regions` (a digit for every pixel of a frame, row by row from the top: its distance to
the border of two classes, which is at 4.5), and `wrong` (indices of points). A line has
a `name`, a `colour` and `values` (frame,). With lines: `limits`, `steps`, their `unit`,
`bands` (`name`, `begin`, `end`) and `marks` (`name`, `step`, `colour`). All values are
dimensionless."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from analysis.committors import committor
from analysis.committors.decision import FIRM, last_onset
from analysis.explorer.live_run import embedding_structure
from analysis.explorer.particle_law import law_script
from analysis.forces import cosine_similarity, without_shift_and_scaling
from analysis.forces.audited_runs import read_audited_run
from analysis.panels.transformer_panels import frequency_plane
from analysis.progress_measures import grokking_phases
from analysis.structures import dominant_frequency
from analysis.structures.fourier import power_fractions
from dynamics import (
    TRANSFORMER_PRESETS,
    Ensemble,
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    randomness,
    replay,
    simulate,
    trained_pairs,
)
from dynamics.networks import single_torch_thread, transformer_of, weights
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.particles import ParticleSystem
from dynamics.tasks import distinct_sequences, sparse_sum

FOLDER = Path(__file__).parent
SEEDS = 30
BLUE, ORANGE = "#2a7de1", "#d9660d"
ARROW = 0.2
"""Mean length of arrows, as a fraction of half the picture."""
LONGEST = 1.8
"""Factor above the mean length at which arrows are cut."""
NETWORK_FRAMES = 150
NETWORKS = 200
CIRCLE_SEED = 28
GRID_SEED = 19
DECISION_STEPS = 120
"""Length of the two runs of the chapter on the decision."""
COPIES = 100
"""Copies of each state."""
SHIFT = 0.2
"""Standard deviation of their shifts."""
TRANSFORMER = dataclasses.replace(TRANSFORMER_PRESETS["small"], n=43, dim=48)
TRANSFORMER_EPOCHS = 7000
SPIKE_SEED = 9
SPIKE_STEPS = (37_028, 37_066)
SPIKE_SEQUENCES = 150
SPIKE_PEAKS = (37_046, 37_052)
SPIKE_BOX = np.array([[-0.37, 0.33], [-0.21, 0.49]])
"""Limits of the two axes in the pictures of the spike."""
REGION_SIDE = 56


def particle_starts() -> str:
    """A script with the initial positions (seed, token, axis) of `sims.particles` for
    the first seeds, before they are normalised, exact to the last bit."""
    starts = randomness.normal_samples(np.arange(SEEDS), "particles/start", (17, 2))
    return f"globalThis.ParticleStarts = {json.dumps(starts.tolist())}\n"


def _rounded(values: Any) -> Any:
    return np.round(np.asarray(values, np.float64), 3).tolist()


def _number_points(
    label: str, frames: np.ndarray, **arrows: np.ndarray
) -> dict[str, Any]:
    """A panel of numbers in the plane, (frame, token, 2); every frame fills the
    picture. Colours follow the strongest frequency of the last frame, so that they go
    round its circle. arrows: vectors at the numbers, by colour."""
    norms = np.linalg.norm(frames, axis=-1)
    places = frames / norms.max(axis=-1)[:, None, None] / (1.6 if arrows else 1.2)
    n = frames.shape[1]
    frequency = dominant_frequency(power_fractions(frames[-1]))
    result = {
        "label": label,
        "points": _rounded(places),
        "names": list(range(n)),
        "hues": _rounded(np.arange(n) * frequency % n / n),
        "arrows": [],
    }
    for colour, vectors in arrows.items():
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        relative = vectors / lengths.mean(axis=1, keepdims=True)
        longest = np.linalg.norm(relative, axis=-1, keepdims=True) / LONGEST
        tips = places + ARROW * relative / np.maximum(1, longest)
        result["arrows"].append({"colour": colour, "tips": _rounded(tips)})
    return result


def _line(name: str, colour: str, values: np.ndarray) -> dict[str, Any]:
    return {"name": name, "colour": colour, "values": _rounded(values)}


def network_record() -> dict[str, Any]:
    """A network in training, with the pull of its loss and the force of particles at
    its numbers, and particles from the same start. Both leave out shift and scaling,
    which do nothing to particles."""
    ensemble = Ensemble(ModularSettings(), 1)
    network = ensemble.simulate(progress=False)
    frames = np.arange(NETWORK_FRAMES)
    run = read_audited_run(network, 0, frames)
    system = ParticleSystem(ParticleSettings(fa=3.0))
    state = system.state_from_positions(run.embedding[:1])
    particles = []
    for _ in frames:
        particles.append(state.embedding[0])
        state = system.advance(state, 2)
    pull, force = (
        without_shift_and_scaling(motion[0], run.embedding)
        for motion in (run.targets, system.force(run.embedding))
    )
    agreement = cosine_similarity(pull, force)
    accuracy = network["accuracy"].sel(split=["train", "validation"]).values[0, frames]
    words = [
        f"Training step {step:,}: {trained:.0%} of the sums it trains on are correct,"
        f" {other:.0%} of the others. The arrows agree by {cosine:.2f} (1: equal,"
        " 0: unrelated)."
        for step, (trained, other), cosine in zip(
            network["step"].values[frames], accuracy, agreement, strict=True
        )
    ]
    pulls = {BLUE: pull, ORANGE: force}
    return {
        "words": words,
        "rate": 15,
        "code": [ensemble.code()],
        "panels": [
            _number_points("Network in training", run.embedding, **pulls),
            _number_points("Particles from the same start", np.array(particles)),
        ],
    }


def network_shapes() -> dict[str, int]:
    """How many of the networks with these settings end as a circle or a grid."""
    runs = simulate(
        ModularSettings(), runs=NETWORKS, every=2000, record="all", progress=False
    )
    last = runs["embedding"].values[:, -1].astype(np.float64)
    kinds = [embedding_structure(embedding).kind for embedding in last]
    circles, grids = kinds.count("circle"), kinds.count("grid")
    return {"networks": NETWORKS, "circles": circles, "grids": grids}


def decision_record() -> dict[str, Any]:
    """Two runs of particles, and their committors, every fifth step and between
    by interpolation: the shares of shifted copies that become circles."""
    steps = np.arange(DECISION_STEPS + 1)
    branched = steps[::5].tolist()
    panels = []
    lines = []
    marks = []
    code = []
    for seed, shape, rank, colour in (
        (CIRCLE_SEED, "circle", "first", BLUE),
        (GRID_SEED, "grid", "second", ORANGE),
    ):
        ensemble = Ensemble(ParticleSettings(fa=1.0), 1, seed, steps=300, every=1)
        run = ensemble.simulate(progress=False)
        shares = committor(run, "circle", branched, COPIES, SHIFT)["committor"].values
        label = f"{rank.capitalize()} run: a {shape}"
        panels.append(_number_points(label, run["embedding"].values[0, steps]))
        line = np.interp(steps, branched, shares.ravel())
        lines.append(_line(f"{rank} run", colour, line))
        agreement = shares.ravel() if shape == "circle" else 1 - shares.ravel()
        step = branched[last_onset(agreement >= FIRM)]
        name = f"{shape} firm from step {step}"
        marks.append({"name": name, "step": step, "colour": colour})
        code.append(ensemble.code())
    curves = {
        "label": "Share of shifted copies that become circles",
        "lines": lines,
        "limits": [0, 1],
        "steps": steps.tolist(),
        "marks": marks,
    }
    words = [
        f"Step {step}: {100 * first:.0f}% of the copies of the first run become circles,"
        f" {100 * second:.0f}% of those of the second."
        for step, first, second in zip(
            steps, lines[0]["values"], lines[1]["values"], strict=True
        )
    ]
    return {"words": words, "rate": 12, "code": code, "panels": [*panels, curves]}


def unseen_pairs(trajectory: xr.Dataset) -> np.ndarray:
    """The pairs (pair, 2) that a transformer is trained on in neither order."""
    trained = trained_pairs(trajectory).isel(run=0)
    pairs = np.stack([trained["first"], trained["second"]], axis=1)
    seen = set(map(tuple, pairs[trained.values].tolist()))
    return np.array([(a, b) for a, b in pairs if not {(a, b), (b, a)} & seen])


@torch.no_grad()
def unseen_scores(trajectory: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and loss (frame,) of a transformer on the pairs of `unseen_pairs`. The
    test split also has pairs whose other order is trained, which it learns earlier."""
    network = transformer_of(trajectory)
    pairs = torch.from_numpy(unseen_pairs(trajectory))
    targets = network.target(pairs)
    with single_torch_thread():
        logits = network.logits(weights(trajectory, run=0), pairs).double()
    correct = (logits.argmax(-1) == targets).double().mean(-1)
    right = logits.gather(-1, targets.expand(len(logits), -1)[..., None])[..., 0]
    return correct.numpy(), (logits.logsumexp(-1) - right).mean(-1).numpy()


def transformer_record() -> dict[str, Any]:
    """The numbers of a transformer in the plane of the strongest frequency of its
    embedding, and its accuracies with the phases. New sums are those of pairs that it
    has seen in neither order."""
    ensemble = Ensemble(TRANSFORMER, 1, steps=TRANSFORMER_EPOCHS, every=100)
    trajectory = ensemble.simulate(progress=False)
    n = TRANSFORMER.n
    embedding = trajectory["embedding"].values[0, :, :n].astype(np.float64)
    embedding -= embedding.mean(axis=1, keepdims=True)
    frequency = int(dominant_frequency(power_fractions(embedding[-1])))
    places = embedding @ frequency_plane(embedding[-1], frequency)
    steps = trajectory["step"].values
    train = trajectory["accuracy"].sel(split="train").values[0]
    unseen, loss = unseen_scores(trajectory)
    phases = grokking_phases(trajectory)[["begin", "end"]].isel(run=0, drop=True)
    phases = phases.rename(phase="name").to_dataframe().reset_index()
    curves = {
        "label": "Correct sums, and the loss of new sums",
        "lines": [
            _line("sums it trains on", BLUE, train),
            _line("new sums", ORANGE, unseen),
            _line("loss of new sums (1: its largest)", "#8a8a8a", loss / loss.max()),
        ],
        "limits": [0, 1],
        "steps": steps.tolist(),
        "unit": "epoch",
        "bands": phases.to_dict("records"),
    }
    words = [
        f"Epoch {step:,}: {100 * trained:.0f}% of the sums it trains on are correct,"
        f" {100 * new:.0f}% of the new ones."
        for step, trained, new in zip(steps, train, unseen, strict=True)
    ]
    return {
        "words": words,
        "rate": 8,
        "code": [ensemble.code()],
        "panels": [_number_points("One of its circles", places), curves],
    }


@torch.no_grad()
def spike_record() -> dict[str, Any]:
    """Sequence embeddings of VC's network at every step of a spike of the loss, over
    the regions of its answers."""
    settings = SparseSettings()
    first, last = SPIKE_STEPS
    ensemble = Ensemble(settings, 1, SPIKE_SEED, steps=last + 64)
    path = replay(ensemble.simulate(progress=False), 0, first, last)
    network = clustering_head_of(path)
    values = {name: array[0].double() for name, array in weights(path).items()}
    tokens, _ = distinct_sequences(settings, SPIKE_SEED, "train")
    spaced = np.linspace(0, len(tokens) - 1, SPIKE_SEQUENCES).astype(int)
    tokens = tokens[spaced]
    targets = sparse_sum(tokens, settings)
    low, high = SPIKE_BOX.T
    centres = (np.arange(REGION_SIDE) + 0.5) / REGION_SIDE
    x, y = low[:, None] + (high - low)[:, None] * centres
    pixels = np.stack(np.meshgrid(x, y[::-1]), axis=-1).reshape(1, -1, 2)

    def margins(points: torch.Tensor) -> np.ndarray:
        zeta = network.transform(values, points, network.normalise(points))
        even, odd = (zeta @ values["embedding"].mT).unbind(-1)
        return (odd - even).numpy()

    table = network.table(values)
    points = network.sequence_embedding(values, torch.from_numpy(tokens), table)
    grid = torch.from_numpy(np.repeat(pixels, len(path["step"]), axis=0))
    wrong = (margins(points) > 0) != targets
    margin = margins(grid).reshape(-1, REGION_SIDE, REGION_SIDE)
    distance = margin / np.hypot(*np.gradient(margin, axis=(1, 2)))
    levels = np.clip(np.round(4.5 + 3 * distance), 0, 9).astype(int)
    loss = path["loss"].sel(split="train").values[0]
    steps = path["step"].values.tolist()
    picture = {
        "label": "Inputs, and the regions of the answers even (blue) and odd (orange)",
        "points": _rounded(2 * (points.numpy() - low) / (high - low) - 1),
        "hues": _rounded(np.where(targets, 0.07, 0.6)),
        "region_hues": [0.6, 0.07],
        "regions": ["".join(map(str, frame.flat)) for frame in levels],
        "wrong": [np.flatnonzero(frame).tolist() for frame in wrong],
    }
    curve = {
        "label": "Loss",
        "lines": [_line("loss", BLUE, loss)],
        "limits": [0, round(float(loss.max()) + 0.05, 1)],
        "steps": steps,
        "marks": [
            {"name": f"step {peak:,}", "step": peak, "colour": ORANGE}
            for peak in SPIKE_PEAKS
        ],
    }
    words = [
        f"Step {step:,}: loss {value:.3f}; {share:.0%} of these inputs get a wrong answer."
        for step, value, share in zip(steps, loss, wrong.mean(axis=1), strict=True)
    ]
    code = f"replay({ensemble.code()}, 0, {first}, {last})"
    return {"words": words, "rate": 3, "code": [code], "panels": [picture, curve]}


def story_script() -> str:
    """A script with the recorded runs of the story."""
    records = {
        "network": network_record() | network_shapes(),
        "decision": decision_record(),
        "transformer": transformer_record(),
        "spike": spike_record(),
    }
    return f"globalThis.StoryData = {json.dumps(records, separators=(',', ':'))}\n"


if __name__ == "__main__":
    (FOLDER / "particle_law.js").write_text(law_script(), "utf-8")
    (FOLDER / "particle_starts.js").write_text(particle_starts(), "utf-8")
    (FOLDER / "story_data.js").write_text(story_script(), "utf-8")
