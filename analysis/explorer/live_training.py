"""The tab in which a small network learns modular addition, beside particles that start
at its initial embedding."""

import numpy as np
from matplotlib.colors import to_rgb

from analysis.explorer.live_figures import (
    MAP_SIDE,
    Chart,
    LivePanel,
    split_charts,
    token_panel,
)
from analysis.explorer.live_page import LivePage
from analysis.explorer.live_run import (
    EPOCHS_PER_STEP,
    EmbeddingStructure,
    TrainingRun,
    embedding_structure,
)
from analysis.explorer.sliders import TrainingSliders
from analysis.panels.colours import class_colours, colour, pale_colours
from analysis.panels.particle_panels import PAIR_SUMS_EXPLANATION, pair_sum_points
from analysis.panels.scene import Map, Points
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, modular_training_mask

_MAP_LIMITS = (-6.0, 6.0)
"""Limits of the class map at the start."""
_SUM_SIZE = 2.0
"""Area of the marks of pair sums, relative to the default."""
_CROSS_SIZE = 1 / 4
"""Area of a cross, relative to the mark below it."""


class TrainingPage(LivePage):
    """Sliders, buttons and figures of CA's network in training and of particles beside
    it."""

    note = (
        "The learning rate and the weight decay apply at once; other settings restart"
        f" the run. Particles take one step per {EPOCHS_PER_STEP} epochs."
    )
    sliders = TrainingSliders
    chart_list = (
        *split_charts("train", "validation"),
        Chart(
            "Grid imperfections",
            {"network": "network", "particles": "particles"},
            note="sums nearest to a different one",
        ),
    )
    run: TrainingRun
    structures: dict[str, EmbeddingStructure]
    """Structures of the network and of the particles."""

    def make_run(self) -> TrainingRun:
        return TrainingRun(ModularSettings())

    def _training_mask(self) -> np.ndarray:
        """Which pairs the network trains on, (pair,) bool."""
        settings = self.run.settings
        seed = np.array([self.run.seed])
        return modular_training_mask(settings, seed)[0]

    def panel_key(self) -> tuple[int, bytes]:
        return self.run.settings.n, self._training_mask().tobytes()

    def make_panels(self) -> list[LivePanel]:
        """The embedding of the network, its class map with the pair sums, and the
        particles."""
        run = self.run
        n = run.settings.n
        is_training = self._training_mask()
        count = len(is_training)
        names = tuple(f"predicted class {c}" for c in range(n))
        sums = pair_sum_points("sums", n, all_pairs(n), is_training, _SUM_SIZE)
        ink = np.tile(to_rgb(colour("ink")), (count, 1))
        layers: list[Map | Points] = [
            Map("classes", pale_colours(class_colours(n)), names, lines=False),
            sums,
            Points(
                "wrong",
                ink,
                ("",) * count,
                ("cross",) * count,
                size=sums.size * _CROSS_SIZE,
            ),
        ]
        note = "background: predicted class; filled: training; hollow: validation; ×: wrong"
        network = token_panel(
            "embedding",
            "network",
            n,
            lambda: run.embedding,
            lambda: self.structures["network"].text,
        )
        class_map = LivePanel(
            "pair_sums",
            "class map",
            layers,
            self.class_map_arrays,
            lambda: run.accuracies,
            _MAP_LIMITS,
            note=note,
            explanation=PAIR_SUMS_EXPLANATION,
        )
        particles = token_panel(
            "embedding",
            "particles",
            n,
            lambda: run.particles.embedding,
            lambda: f"step {run.particles.time}: {self.structures['particles'].text}",
        )
        return [network, class_map, particles]

    def add_chart_values(self) -> None:
        self.structures = {
            "network": embedding_structure(self.run.embedding),
            "particles": embedding_structure(self.run.particles.embedding),
        }
        super().add_chart_values()

    def measures(self) -> dict[str, float]:
        counts = {
            name: structure.imperfections for name, structure in self.structures.items()
        }
        return {**self.run.scores(), **counts}

    def class_map_arrays(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """Arrays of the class map and of the marks of pair sums, by layer."""
        pairs = all_pairs(self.run.settings.n)
        sums = panel.fit_limits(self.run.embedding[pairs].sum(axis=1))
        pixel_centres = (2 * np.arange(MAP_SIDE) + 1 - MAP_SIDE) / MAP_SIDE
        pixel_centres *= panel.reach
        grid = np.meshgrid(pixel_centres, pixel_centres)
        pixels = np.stack(grid, axis=-1).reshape(-1, 2)
        classes = self.run.classes(np.concatenate([pixels, sums]))
        map_classes, predicted = np.split(classes, [len(pixels)])
        correct = predicted == modular_sum(pairs, self.run.settings.n)
        return {
            "classes": map_classes.reshape(MAP_SIDE, MAP_SIDE),
            "sums": sums,
            "wrong": np.where(correct[:, None], np.nan, sums),
        }
