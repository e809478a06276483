"""Panels of a model from outside that adds two numbers and whose model file is in the
trajectory: the pair sums of its embedding over a map of classes.

The class at a point of the plane is the one that the network predicts for two numbers
whose embeddings are both half of the point, with all other parameters as they are. A
cross marks each pair that the network gets wrong. All values are dimensionless."""

from __future__ import annotations

import numpy as np

from analysis.panels.common_panels import (
    RecordedRun,
    RunPanels,
    build_default_panels,
    join_notes,
)
from analysis.panels.particle_panels import PairPanels
from dynamics.errors import TrajectoryError
from dynamics.recording.model_file import find_model
from dynamics.recording.recorded_network import RecordedNetwork
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import adds_numbers

MOST_PIXELS = 96
"""Largest number of pixels along a side of the map: N pixels take a pass of the
network."""


class OwnNetworkPanels(PairPanels):
    """The pair sums of a model from outside.

    Raises TrajectoryError, SettingsError if the functions of the model fail."""

    def __init__(self, recorded: RecordedRun, network: RecordedNetwork) -> None:
        super().__init__(recorded)
        recorded.side = min(recorded.side, MOST_PIXELS)
        self.network = network
        trained = network.training_pairs(0)
        self.trained = np.ones(len(self.pairs), bool)
        if trained is not None:
            codes = np.sort(trained, axis=1) @ [self.n, 1]
            self.trained = np.isin(self.pairs @ [self.n, 1], codes)
        network.point_classes(network.parameters(0, 0), np.zeros((1, self.dim)))

    def wrong(self, frames: np.ndarray) -> np.ndarray:
        pairs = self.pairs[self.marked]
        right = self.residue[self.marked]
        return np.stack([self.network.classes(0, at, pairs) != right for at in frames])

    def classes(self, frames: np.ndarray) -> np.ndarray:
        points = self.map_points(frames)
        classes = [
            self.network.point_classes(
                self.network.parameters(0, frame), points[min(at, len(points) - 1)]
            )
            for at, frame in enumerate(frames)
        ]
        return self.as_map(np.stack(classes))


def build_own_network_panels(recorded: RecordedRun) -> RunPanels:
    """Panels of a recorded model; the pair sums come with a model file that has run on
    this computer and computes the logits of sums."""
    default = build_default_panels(recorded)
    try:
        model = find_model(recorded.data)
        if model is None or not (
            recorded.has_residue_tokens and adds_numbers(recorded.data)
        ):
            return default
        own = OwnNetworkPanels(recorded, RecordedNetwork(recorded.data, model))
    except (SettingsError, TrajectoryError):
        return default
    filled = own.trained[own.marked]
    note = join_notes(
        "background: class of two equal embeddings",
        "" if filled.all() else "filled: training pairs",
    )
    first, *rest = default.panels
    panels = {
        first: default.panels[first],
        "pair_sums": lambda: own.pair_panel(filled, note, "wrong"),
        **{name: default.panels[name] for name in rest},
    }
    return RunPanels(panels)
