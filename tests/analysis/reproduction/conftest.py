"""Evidence of every experiment at a tiny size, measured once for all tests of a
process."""

import sys

import pytest

from analysis.reproduction.experiment import Runner
from analysis.reproduction.own import sensitivity_claims
from analysis.reproduction.registry import EXPERIMENTS

SEVEN = {"n": 7}
NETWORKS = {"runs": 4, "epochs": 100, "settings": SEVEN}
SPARSE = {"length": 6, "sparsity": 2, "data": 60, "hidden": 6, "batch": 16, "lr": 0.02}
TRANSFORMER = {"n": 7, "dim": 8, "heads": 2}
FLIP_GRID = {"lr": [0.03, 0.1], "norm": ["rms"], "table": [2]}
SIZES = {
    "ca.table1": NETWORKS,
    "ca.classifier": NETWORKS,
    "ca.decay-by-part": NETWORKS,
    "ca.figure6": NETWORKS,
    "ca.weight-angles": {"tokens": [3, 4], "runs": 8, "epochs": 100},
    "ca.audit": {**NETWORKS, "moments": [20, 100], "audited": 2},
    "ca.appF": {"runs": 3, "epochs": 100, "settings": SEVEN},
    "own.sensitivity": {"runs": 4},
    "own.pair-law": {**NETWORKS, "frames": 4},
    "own.scaling": {"sizes": [5, 6, 7], "runs": 30, "steps": 20},
    "ca.table2": {"runs": 8, "settings": SEVEN},
    "vc.ideal": {"norms": ["rms"], "settings": {"length": 8}},
    "ch.fixed-points": {
        "push": [1e-3],
        "steps": 5,
        "draws": 1,
        "settings": {"length": 5, "sparsity": 2, "hidden": 6},
    },
    "vc.circuits": {"runs": 4, "epochs": 30, "settings": SPARSE},
    "vc.phases": {"runs": 4, "epochs": 30, "frames": 11, "settings": SPARSE},
    "vc.norms": {
        "full": 2,
        "mini": 2,
        "three": 1,
        "epochs": 22,
        "updates": 44,
        "every": 2,
    },
    "vc.saddles": {"full": 1, "mini": 1, "epochs": 22, "updates": 44, "every": 2},
    "vc.sparsity": {
        "usual": 4,
        "dims": [3],
        "others": 3,
        "epochs": 30,
        "settings": SPARSE,
    },
    "vc.vocabularies": {"runs": 4, "epochs": 10, "vocabs": [3, 4], "settings": SPARSE},
    "vc.finetuning": {"runs": 4, "epochs": 20, "settings": SPARSE},
    "vc.ablation": {
        "runs": 3,
        "epochs": 2,
        "points": 3,
        "max_hidden": 40,
        "settings": SPARSE,
    },
    "vc.relatives": {
        "runs": 3,
        "epochs": 45,
        "settings": SPARSE,
        "changes": [{"lr": 0.03}, {"batch": 20}],
    },
    "vc.spikes": {"runs": 4, "epochs": 120, "settings": {**SPARSE, "lr": 0.1}},
    "own.fate-particles": {
        "system": "particles",
        "runs": 4,
        "copies": 3,
        "perturbations": ["displaced by 1%"],
        "settings": {"n": 5},
    },
    "own.fate-networks": {
        "system": "networks",
        "runs": 3,
        "epochs": 4,
        "copies": 3,
        "perturbations": ["displaced by 5%", "displaced by 20%"],
    },
    "own.fate-sparse": {
        "system": "sparse",
        "runs": 3,
        "epochs": 2,
        "copies": 3,
        "perturbations": ["displaced by 1%", "other mini-batches"],
        "settings": SPARSE,
    },
    "own.fate-epochs": {
        "system": "sparse",
        "runs": 3,
        "epochs": 4,
        "copies": 3,
        "every": 1,
        "starts": [0, 1, 2],
        "settings": SPARSE,
    },
    "vc.flips": {
        "runs": 2,
        "spikes": 2,
        "epochs": 120,
        "settings": SPARSE,
        **FLIP_GRID,
    },
    "vc.remedies": {
        "runs": 4,
        "epochs": 60,
        "settings": SPARSE,
        "remedies": {"hidden": 8},
    },
    "zl.attention-rate": {
        "runs": 3,
        "every": 20,
        "rates": [0.0, 1.0],
        "epochs": [60, 80],
        "settings": TRANSFORMER,
    },
    "na.phases": {
        "preset": "small",
        "runs": 3,
        "epochs": 200,
        "every": 10,
        "settings": TRANSFORMER,
    },
    "na.weight-decay": {
        "preset": "small",
        "runs": 3,
        "epochs": 60,
        "every": 20,
        "settings": TRANSFORMER,
    },
}
READINGS = ("defaults", "half the step", "variance 1 per axis", "(i, i) is no pair")
"""Of the other readings of CA section 6: changes of each kind."""


RUNNER = Runner(sys.stderr)


class Evidence(dict):
    """Evidence by the experiment's name, measured when it is first needed; beside it
    the ensembles that this made, and those that the experiment declares."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.made, self.declared = folder, {}, {}

    def measure(self, name):
        experiment = EXPERIMENTS[name]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(
                sensitivity_claims,
                "CHANGES",
                {reading: sensitivity_claims.CHANGES[reading] for reading in READINGS},
            )
            self.declared[name] = {
                self.folder / RUNNER.path(need)
                for need in experiment.ensembles(SIZES[name])
            }
            return experiment.measure(RUNNER, SIZES[name])

    def __missing__(self, name):
        before = {*self.folder.glob("runs/*.nc")}
        self[name] = self.measure(name)
        self.made[name] = {*self.folder.glob("runs/*.nc")} - before
        return self[name]


@pytest.fixture(scope="session")
def evidence(tmp_path_factory):
    return Evidence(tmp_path_factory.mktemp("experiments"))
