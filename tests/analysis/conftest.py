"""Trajectories that tests of several commands draw."""

import itertools

import pytest

from dynamics import ModularSettings, ParticleSettings, SparseSettings, simulate

MODULAR, SPARSE = {"n": 7, "hidden": 6}, {"data": 64, "hidden": 7}
SMALL_RUNS = {
    "particles": (ParticleSettings(n=7), {"steps": 12}),
    "modular": (ModularSettings(**MODULAR), {"steps": 40}),
    "metrics": (ModularSettings(**MODULAR), {"steps": 40, "record": "metrics"}),
    "sparse": (SparseSettings(**SPARSE), {"steps": 24, "every": 8}),
    "deep": (SparseSettings(**SPARSE, dim=3), {"steps": 8, "every": 8}),
    "wild": (
        ModularSettings(**MODULAR, optimizer="sgd", lr=1e-3, weight_decay=2500),
        {"steps": 40, "every": 1},
    ),
}


@pytest.fixture(scope="session")
def small_runs(tmp_path_factory):
    """A small trajectory of each kind, two runs each, by name."""
    folder, result = tmp_path_factory.mktemp("small-runs"), {}
    for name, (settings, options) in SMALL_RUNS.items():
        result[name] = folder / f"{name}.nc"
        simulate(settings, runs=2, seed=3, out=result[name], **options)
    return result


@pytest.fixture
def check_texts():
    """A function that draws a figure and checks that some of its texts neither overlap
    nor cross its edges."""

    def check(figure, texts):
        figure.canvas.draw()
        width, height = figure.canvas.get_width_height()
        boxes = [text.get_window_extent() for text in texts]
        for box in boxes:
            assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0
        assert not any(
            one.overlaps(other) for one, other in itertools.combinations(boxes, 2)
        )

    return check
