"""The lists of the packages' commands."""

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
        "table1",
        "table2",
        "weights",
        "scaling",
        "ablation",
        "transfer",
        "remedies",
        "paper",
        "verify",
        "explore",
    ),
}
"""The commands of the package analysis, by what they read."""


def print_commands(package: Path, names: Sequence[str]) -> None:
    """Print the commands of a package with the first sentences of their docstrings;
    nothing is imported."""
    width = max(len(path.stem) for path in package.glob("[!_]*.py"))
    for name in names:
        module = ast.parse((package / f"{name}.py").read_text())
        docstring = ast.get_docstring(module) or ""
        summary = " ".join(docstring.partition("\n\n")[0].split())
        print(f"python -m {package.name}.{name:<{width}}  {summary}")
