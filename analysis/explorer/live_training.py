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
from analysis.explorer.live_run import EPOCHS_PER_STEP, TrainingRun, embedding_structure
from analysis.explorer.sliders import TrainingSliders
from analysis.panels.colours import class_colours, colour, pale_colours
from analysis.panels.particle_panels import PAIR_SUMS_EXPLANATION, pair_sum_points
from analysis.panels.scene import Map, Points
from dynamics.settings import ModularSettings
from dynamics.tasks import all_pairs, modular_sum, training_pairs


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
        Chart("Grid imperfections", {"network": "network", "particles": "particles"}),
    )
    run: TrainingRun

    def make_run(self) -> TrainingRun:
        return TrainingRun(ModularSettings())

    def _trained(self) -> np.ndarray:
        """Which pairs the network trains on, (pair,) bool."""
        settings = self.run.settings
        seed = np.array([self.run.seed])
        return training_pairs(settings.n, settings.train_pairs, seed)[0]

    def panel_key(self) -> tuple[int, bytes]:
        return self.run.settings.n, self._trained().tobytes()

    def make_panels(self) -> list[LivePanel]:
        """Pair sums of the training split are filled."""
        run = self.run
        n = self.run.settings.n
        count = len(self._trained())
        names = tuple(f"predicted class {c}" for c in range(n))
        sums = pair_sum_points("sums", n, all_pairs(n), self._trained(), 2.0)
        ink = np.tile(to_rgb(colour("ink")), (count, 1))
        layers: list[Map | Points] = [
            Map("classes", pale_colours(class_colours(n)), names, lines=False),
            sums,
            Points("wrong", ink, ("",) * count, ("cross",) * count, size=sums.size / 4),
        ]
        note = "background: predicted class; filled: training; hollow: validation; ×: wrong"
        network = token_panel(
            "embedding",
            "network",
            n,
            lambda: run.embedding,
            lambda: self.structures["network"].words,
        )
        class_map = LivePanel(
            "pair_sums",
            "class map",
            layers,
            self.map,
            lambda: run.accuracies,
            (-6.0, 6.0),
            note=note,
            explanation=PAIR_SUMS_EXPLANATION,
        )
        particles = token_panel(
            "embedding",
            "particles",
            n,
            lambda: run.particles.embedding,
            lambda: f"step {run.particles.time}: {self.structures['particles'].words}",
        )
        return [network, class_map, particles]

    def measures(self) -> dict[str, float]:
        run = self.run
        x = {"network": run.embedding, "particles": run.particles.embedding}
        self.structures = {name: embedding_structure(x[name]) for name in x}
        counts = {name: self.structures[name].imperfections for name in x}
        return {**run.scores(), **counts}

    def map(self, panel: LivePanel) -> dict[str, np.ndarray]:
        """Arrays of the class map and of the marks of pair sums, by layer."""
        pairs = all_pairs(self.run.settings.n)
        sums = panel.fit(self.run.embedding[pairs].sum(axis=1))
        ticks = (2 * np.arange(MAP_SIDE) + 1 - MAP_SIDE) / MAP_SIDE * panel.reach
        pixels = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        classes = self.run.classes(np.concatenate([pixels, sums]))
        answers = classes[len(pixels) :]
        right = answers == modular_sum(pairs, self.run.settings.n)
        return {
            "classes": classes[: len(pixels)].reshape(MAP_SIDE, MAP_SIDE),
            "sums": sums,
            "wrong": np.where(right[:, None], np.nan, sums),
        }
