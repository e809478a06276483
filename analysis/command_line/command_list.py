"""Names of all commands, and the lists that `python -m analysis` and `python -m sims`
print."""

import ast
from collections.abc import Sequence
from pathlib import Path

ANALYSIS_GROUPS = {
    "Of any trajectory": (
        "events",
        "gradients",
        "formation",
        "overview",
        "compare",
        "activations",
        "weight_spectra",
        "frame",
        "film",
    ),
    "Of any model's loss": (
        "curvature",
        "edge",
        "spectral_density",
        "llc",
        "landscape",
        "noise",
    ),
    "Of these networks and particles": (
        "audit",
        "pair_law",
        "progress",
        "circuits",
        "sparsity",
        "spikes",
        "fate",
        "fixed_points",
    ),
    "Papers and pages": (
        "paper",
        "verify",
        "explore",
    ),
}
"""The commands of the package analysis, by what they read."""
EXPERIMENTS = (
    "table1",
    "table2",
    "weights",
    "ablation",
    "transfer",
    "remedies",
    "scaling",
)
"""The experiments of the papers that `python -m analysis.paper NAME` runs."""


def print_commands(folder: Path, names: Sequence[str], prefix: str) -> None:
    """Print the commands in a folder with the first sentences of their docstrings;
    nothing is imported. A command line is the prefix and the name."""
    width = max(len(path.stem) for path in folder.glob("[!_]*.py"))
    for name in names:
        module = ast.parse((folder / f"{name}.py").read_text("utf-8"))
        docstring = ast.get_docstring(module) or ""
        summary = " ".join(docstring.partition("\n\n")[0].split())
        print(f"{prefix}{name:<{width}}  {summary}")
