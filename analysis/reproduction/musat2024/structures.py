"""CA sections 4 and 6, figures 1, 2 and 5, appendix A: structures in which networks and particles end.

Kinds of end states, by the distances of `analysis.structures.nearest_structures`. Near means nearer than 99% of random
embeddings:

    circle           circle by CA algorithm 1
    grid             no circle; near a grid that respects addition and has no holes
    imperfect grid   no circle; near such a grid only if it may have holes
    neither          none of these
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.ca_tables import end_accuracy
from analysis.reproduction.musat2024 import networks, particles
from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Claim, Kind, Measurement, claims_of, part, parts_over
from analysis.reproduction.verification.criteria import Above, Criterion, Exists, Within
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.final_frames import frame_values, measure_ensembles
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.structures import nearest_structures
from dynamics.randomness import normal_samples

RANDOM_EMBEDDINGS, RARE = 1000, 0.01
SYSTEMS = {"network": "weight_decay", "particle": "fa"}
"""The two systems with the setting of their ensembles."""

QUANTITIES = {
    "circle": "whether it is a circle by CA algorithm 1",
    "imperfections": "grid imperfections",
    "circle_distance": "distance from the nearest perfect circle",
    "grid_distance": "distance from the nearest grid, with or without holes",
    "perfect_distance": "distance from the nearest grid without holes",
}


def ensembles_of(params: Params, system: str) -> Sequence[RequiredRuns]:
    """Networks of table 1, or particles of table 2."""
    if system == "network":
        return networks.ensembles({**params, "runs": params["networks"]})
    return particles.ensembles({"runs": params["particles"], "settings": params.get("settings", {})})


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Both."""
    return [need for system in SYSTEMS for need in ensembles_of(params, system)]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Distances of end states from perfect circles and grids, (weight_decay, network) and (fa, particle)."""
    parts = []
    for system, setting in SYSTEMS.items():
        quantities = QUANTITIES | ({"accuracy": "validation accuracy, %"} if system == "network" else {})
        needs = ensembles_of(params, system)
        found = measure_ensembles(runner, needs, quantities, _measure_runs, (setting, system))
        parts.append(found.rename({name: f"{system}_{name}" for name in quantities}))
    n = ensembles(params)[0].settings.n  # type: ignore[attr-defined]
    x = normal_samples(np.arange(params.get("random", RANDOM_EMBEDDINGS)), "formation/chance", (n, 2))
    chance = xr.Dataset(coords={"weight_decay": list(networks.DECAYS), "fa": list(particles.FAS)})
    for name, values in structure_distances(x).items():
        attrs = {"long_name": "quantile of random embeddings at 1%", "units": "1"}
        chance[f"chance_{name}"] = ((), float(np.quantile(values, RARE)), attrs)
    return xr.merge([*parts, chance])


def _measure_runs(trajectory: xr.Dataset, kept: np.ndarray) -> dict[str, np.ndarray]:
    """The quantities of one ensemble, each (kept run,)."""
    found = particles.end_structures(trajectory, kept)
    found |= structure_distances(frame_values(trajectory, "embedding", -1)[kept])
    if "accuracy" in trajectory:
        found["accuracy"] = 100 * end_accuracy(trajectory, trajectory["seed"].values[kept])
    return found


def structure_distances(x: np.ndarray) -> dict[str, np.ndarray]:
    """Distances of embeddings (run, token, axis) from perfect structures, each (run,)."""
    return {
        "circle_distance": nearest_structures.nearest_circle(x).distance,
        "grid_distance": nearest_structures.nearest_grid(x).distance,
        "perfect_distance": nearest_structures.nearest_perfect_grid(x).distance,
    }


LARGE = {"networks": 1000, "particles": 1000, "every": 0}
STRUCTURES = Experiment(
    "ca.structures",
    "distance of networks and particles from perfect circles and grids at the end",
    sizes={Size.QUICK: {"networks": 100, "particles": 100}, Size.DEFAULT: LARGE, Size.FULL: LARGE},
    seconds={Size.QUICK: 5, Size.DEFAULT: 20, Size.FULL: 20},
    measure=measure,
    ensembles=ensembles,
    depends={"random": RANDOM_EMBEDDINGS, "rare": RARE, "starts": nearest_structures.GRID_SEARCH_STARTS},
    command="python -m analysis.formation",
)


def end_states_by_kind(evidence: xr.Dataset, system: str) -> dict[str, np.ndarray]:
    """Which end states are of each kind: by name (setting, run) bool, all false for a run that diverged."""
    known = np.isfinite(evidence[f"{system}_circle"].values)
    circle = evidence[f"{system}_circle"].values == 1
    level = float(evidence["chance_grid_distance"])
    near = evidence[f"{system}_grid_distance"].values < level
    perfect = evidence[f"{system}_perfect_distance"].values < level
    return {
        "circle": circle,
        "grid": known & ~circle & perfect,
        "imperfect grid": known & ~circle & near & ~perfect,
        "neither": known & ~circle & ~near & ~perfect,
    }


def percentage_of_kinds(evidence: xr.Dataset, system: str, at: float, kinds: Sequence[str]) -> Estimate:
    """Percentage of end states of some kinds, at a weight decay or alignment constant."""
    found = end_states_by_kind(evidence.sel({SYSTEMS[system]: at}), system)
    known = sum(int(each.sum()) for each in found.values())
    return samples.percentage_or_none(sum(int(found[kind].sum()) for kind in kinds), known, f"{system}s")


def overlap_with_algorithm(evidence: xr.Dataset, system: str, of_found: bool) -> Estimate:
    """Percentage of the circles of algorithm 1 that are regular polygons, or of these that algorithm 1 finds.

    A regular polygon is nearer to a perfect circle than to any grid, and than 99% of random embeddings.
    """
    distance, circle = evidence[f"{system}_circle_distance"].values, evidence[f"{system}_circle"].values == 1
    near = distance < float(evidence["chance_circle_distance"])
    polygon = near & (distance < evidence[f"{system}_grid_distance"].values)
    total, of = (circle, "circles") if of_found else (polygon, "regular polygons")
    return samples.percentage_or_none(int((polygon & circle).sum()), int(total.sum()), of)


def accuracy_by_kind(evidence: xr.Dataset, first: Sequence[str], second: Sequence[str]) -> Estimate:
    """Validation accuracy of networks of some kinds minus that of others, within weight decays, in points.

    Seeds, which the weight decays have in common, are left out in turn.
    """
    found = end_states_by_kind(evidence, "network")
    one, other = (np.any([found[kind] for kind in kinds], axis=0).ravel() for kinds in (first, second))
    accuracy = evidence["network_accuracy"].values
    decays, seeds = (each.ravel() for each in np.indices(accuracy.shape))
    return samples.stratified_difference(accuracy.ravel(), one, other, seeds, decays, "networks")


def circle_difference(evidence: xr.Dataset, first: tuple[str, float], second: tuple[str, float]) -> Estimate:
    """Percentage of circles of one ensemble minus that of another, each (system, setting), in points."""
    one, other = (evidence[f"{system}_circle"].sel({SYSTEMS[system]: at}) for system, at in (first, second))
    return samples.difference_of_ones(one, other)


def imperfection_difference(evidence: xr.Dataset, fa: float, decay: float) -> Estimate:
    """Mean imperfections of the particles that are not circles minus those of such networks."""
    at = evidence.sel(fa=fa, weight_decay=decay)
    network, particle = (at[f"{name}_imperfections"].where(at[f"{name}_circle"] == 0) for name in SYSTEMS)
    return samples.independent_difference(particle, network, "runs of both that are not circles")


KINDS = (
    "near a grid that respects addition, with or without holes, or a circle by algorithm 1",
    "what looks like a grid or a circle in a picture, as in the paper",
)
STRUCTURED = ("circle", "grid", "imperfect grid")
DECAYS = (0.6, 1.0)
"""Weight decays at which the paper finds more than one circle."""
GREAT, SIMILAR = Above(90, ours=True), Within(-10, 10, ours=True)


def _kind_parts(system: str, settings: Sequence[float], criterion: Criterion, *kinds: str) -> tuple[Measurement, ...]:
    """The percentage of end states of some kinds at each weight decay or alignment constant."""
    label = "weight decay {:g}" if system == "network" else "f_a = {:g}"
    return parts_over("at", settings, percentage_of_kinds, criterion, label, "%", system=system, kinds=kinds)


def _examples(system: str, *kinds: str) -> tuple[Measurement, ...]:
    """Whether there are end states of each of some kinds, at weight decay 1 or f_a = 1."""
    return tuple(
        part(percentage_of_kinds, Exists(), f"{kind}s", "%", system=system, at=1.0, kinds=(kind,)) for kind in kinds
    )


def _accuracy_part(minimum: float, first: str, second: str) -> Measurement:
    """Whether one group of kinds, such as "circles and grids", has a higher validation accuracy than another."""
    one, other = ([kind.removesuffix("s") for kind in group.split(" and ")] for group in (first, second))
    return part(accuracy_by_kind, Above(0, minimum), f"{first} minus {second}", "points", first=one, second=other)


CLAIMS = claims_of(
    STRUCTURES,
    Claim(
        "CA.s4.structures",
        "Embeddings tend to arrange themselves in arithmetic progressions, as grids or as circles.",
        "percentage of networks that end as a circle or near a grid, with or without holes",
        parts=_kind_parts("network", DECAYS, Above(50, 10), *STRUCTURED),
        departure="only with weight decay",
        readings=(*KINDS, "for networks without weight decay as well"),
        places="abstract, section 2, section 4, appendix C",
        figure="ca-c",
        importance=3,
        meaning="the structures that the paper explains would be exceptions",
    ),
    Claim(
        "CA.figure1.both",
        "Some networks end with embeddings in a regular grid, others in a circle.",
        "percentage of circles, and of grids without holes, among networks with weight decay 1",
        parts=_examples("network", "circle", "grid"),
        kind=Kind.EXAMPLE,
        places="figure 1, appendix C",
        importance=2,
        meaning="one of the two structures would not exist",
    ),
    Claim(
        "CA.figure2.imperfect",
        "Sometimes the embeddings end as an imperfect grid.",
        "percentage of networks that end near a grid with holes and not near one without",
        parts=_kind_parts("network", DECAYS, Exists(), "imperfect grid"),
        kind=Kind.EXAMPLE,
        places="figure 2, section 4",
    ),
    Claim(
        "CA.s4.order",
        "Validation accuracy is highest for clear structures, lower for imperfect grids, and lowest for embeddings "
        "that are not aligned.",
        "difference between the mean validation accuracies of two kinds of networks within each weight decay, averaged "
        "over the weight decays that have both",
        parts=(
            _accuracy_part(5, "circles and grids", "imperfect grids"),
            _accuracy_part(5, "grids", "imperfect grids"),
            _accuracy_part(5, "imperfect grids", "neither"),
        ),
        figure="ca2",
        importance=2,
        meaning="accuracy would not depend on how regular the structure is",
    ),
    Claim(
        "CA.s2.generalisation",
        "Grids and circles are key to the generalisation performance of the network.",
        "validation accuracy of circles, and of grids with or without holes, minus that of networks that are neither, "
        "within each weight decay, averaged over the weight decays that have both",
        parts=(_accuracy_part(10, "circles", "neither"), _accuracy_part(10, "grids and imperfect grids", "neither")),
        places="section 2, section 4, section 8",
        importance=2,
        meaning="networks would generalise by something other than these structures",
    ),
    Claim(
        "CA.appA.circles",
        "A largest norm below 1.2 times the smallest norm detects circles with great accuracy.",
        "percentage of the circles by algorithm 1 that are regular polygons with the tokens in the order of one "
        "frequency, and percentage of these polygons that algorithm 1 finds; 90% counts as great accuracy",
        parts=(
            *parts_over("system", SYSTEMS, overlap_with_algorithm, GREAT, "regular circles, {}s", "%", of_found=True),
            *parts_over("system", SYSTEMS, overlap_with_algorithm, GREAT, "polygons found, {}s", "%", of_found=False),
        ),
        places="appendix A.1, section 4",
    ),
    Claim(
        "CA.s6.structures",
        "Under these forces alone, particles arrange themselves in the same structures as the embeddings.",
        "percentage of simulations that end as a circle or near a grid, with or without holes",
        parts=_kind_parts("particle", (1.0, 0.5, 2.0), Above(50, 10), *STRUCTURED),
        departure=particles.FITTED,
        readings=(*KINDS, "the forces give each network's own course and end (OWN.audit, OWN.sequence)"),
        places="abstract, section 2, section 6, appendix D",
        figure="ca5",
        importance=3,
        meaning="the forces would not suffice to make grids and circles",
    ),
    Claim(
        "CA.figure5.three",
        "Particles form circles, grids and imperfect grids.",
        "percentage of each among simulations with f_a = 1",
        parts=_examples("particle", *STRUCTURED),
        kind=Kind.EXAMPLE,
        departure=particles.FITTED,
        places="figure 5, appendix D, section 6",
        importance=2,
        meaning="particles would lack a structure that embeddings have",
    ),
    Claim(
        "CA.s6.as-networks",
        "Circles are as frequent among particles as among networks, and the other runs have as many imperfections.",
        "simulations with f_a = 1 minus networks with weight decay 1: percentage of circles, and mean imperfections of "
        "the others",
        parts=(
            part(circle_difference, SIMILAR, "circles", "points", first=("particle", 1.0), second=("network", 1.0)),
            part(imperfection_difference, SIMILAR, "imperfections", fa=1.0, decay=1.0),
        ),
        departure=particles.FITTED,
        readings=("f_a = 1 compared with weight decay 1", "f_a = 1 compared with weight decay 0.6"),
        places="section 6, section 8, table 1, table 2",
        figure="ca5",
        importance=3,
        meaning="the simulation would be no evidence that its forces are those in the network",
    ),
    Claim(
        "CA.s6.more-circles",
        "A larger f_a leads to more circles.",
        "difference between the percentages of circles of successive rows of table 2",
        parts=tuple(
            part(circle_difference, Above(0, 5), label, "points", first=("particle", high), second=("particle", low))
            for label, high, low in (("f_a = 1 minus 0.5", 1.0, 0.5), ("f_a = 2 minus 1", 2.0, 1.0))
        ),
        departure=particles.FITTED,
        places="section 6, table 2, appendix D",
        figure="ca-d",
        importance=3,
        meaning="alignment would not make circles",
    ),
)
