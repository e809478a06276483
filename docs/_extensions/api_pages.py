"""Pages of the API reference, one for each package, written from the names that it
exports when the site is built."""

import importlib
import inspect
from pathlib import Path
from typing import get_origin

PACKAGES = {
    "dynamics": "systems, simulation and trajectories",
    "dynamics.particles": "particles under pair forces",
    "dynamics.networks": "the two transformers as functions of their weights",
    "dynamics.training": "training of ensembles of networks",
    "dynamics.trajectory": "the file format",
    "dynamics.sweeps": "grids of settings",
    "analysis": "the functions that are used most",
    "analysis.statistics": "intervals, ranks, survival",
    "analysis.structures": "circles, grids, shapes, formation times",
    "analysis.forces": "force audit, alignment",
    "analysis.transitions": "plateaus, drops, spikes and their causes",
    "analysis.clustering_heads": "circuits of sparse modular addition",
    "analysis.linearization": "Hessians and force Jacobians",
    "analysis.progress_measures": (
        "how a network generalises: frequencies, restricted loss, phases"
    ),
    "analysis.plots": "pictures and films",
    "analysis.output": "tables and result files",
    "analysis.explorer": "the page in the browser",
    "analysis.reproduction": "tests of the papers' claims",
}
"""Each documented package, with its subject."""

FULL_PAGES = ["dynamics", *(name for name in PACKAGES if "." in name), "analysis"]
"""In this order, the first page whose package exports an object describes it; other
pages link there."""


def setup(app) -> dict:
    app.connect(
        "builder-inited",
        lambda app: write_pages(Path(app.srcdir) / "reference" / "generated"),
    )
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> None:
    exported = {package: exported_objects(package) for package in PACKAGES}
    homes: dict[int, str] = {}
    for package in FULL_PAGES:
        for name, value in exported[package].items():
            homes.setdefault(id(value), f"{package}.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in PACKAGES:
            path.unlink()
    for package, subject in PACKAGES.items():
        page = package_page(
            package,
            subject,
            {name: homes[id(value)] for name, value in exported[package].items()},
        )
        path = folder / f"{package}.rst"
        if (
            not path.exists() or path.read_text() != page
        ):  # an unchanged page is not built again
            path.write_text(page)


def exported_objects(package: str) -> dict[str, object]:
    """Functions and classes; constants and type aliases have no docstring that could be
    read from the package."""
    module = importlib.import_module(package)
    values = {name: getattr(module, name) for name in sorted(module.__all__)}
    return {
        name: value
        for name, value in values.items()
        if callable(value) and get_origin(value) is None
    }


def package_page(package: str, subject: str, homes: dict[str, str]) -> str:
    """A table of all names, and the description of those whose home is this package."""
    lines = [package, "=" * len(package), "", f"{subject[0].upper()}{subject[1:]}.", ""]
    lines += [
        ".. autosummary::",
        "   :nosignatures:",
        "",
        *(f"   ~{home}" for home in homes.values()),
        "",
    ]
    for name, home in homes.items():
        if home == f"{package}.{name}":
            lines += [f".. {directive(home)}:: {home}", ""]
    return "\n".join(lines)


def directive(path: str) -> str:
    package, name = path.rsplit(".", 1)
    value = getattr(importlib.import_module(package), name)
    if not inspect.isclass(value):
        return "autofunction"
    return "autoexception" if issubclass(value, Exception) else "autoclass"
