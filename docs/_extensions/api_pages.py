"""Pages of the API reference, written from the names that each package exports when the
site is built: one for each package, with tables by subject, and one for each subject.
A subject is a module, and its name the first sentence of the docstring."""

import importlib
import inspect
from pathlib import Path
from typing import get_origin

from analysis.command_line.command_list import ANALYSIS_GROUPS

PACKAGES = {
    "dynamics": "systems, simulation and trajectories",
    "dynamics.particles": "particles under pair forces",
    "dynamics.networks": "the two transformers as functions of their weights",
    "dynamics.training": "training of ensembles of networks",
    "dynamics.trajectory": "the file format",
    "dynamics.sweeps": "grids of settings",
    "dynamics.testing": "checks for authors of systems",
    "analysis": "the analyses, and the functions that are used most",
    "analysis.statistics": "intervals, ranks, survival",
    "analysis.structures": "circles, grids, shapes, formation times",
    "analysis.forces": "force audit, alignment",
    "analysis.transitions": "plateaus, drops, spikes and their causes",
    "analysis.clustering_heads": "circuits of sparse modular addition",
    "analysis.linearization": "Hessians, force Jacobians and other operators of curvature",
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
    pages: dict[str, str] = {}
    for package, subject in PACKAGES.items():
        sections: dict[str, list[str]] = {}
        own: dict[str, list[str]] = {}
        for value in exported[package].values():
            home = homes[id(value)]
            sections.setdefault(section_title(value), []).append(home)
            if home.rpartition(".")[0] == package:
                own.setdefault(value.__module__, []).append(home)
        pages[package] = package_page(package, subject, sections, list(own))
        pages |= {module: module_page(module, names) for module, names in own.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, page in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != page:  # unchanged: not built again
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


def section_title(value: object) -> str:
    """The section of a package's page in which an object stands: the group of an
    analysis, or the subject of its module."""
    module = value.__module__
    if module.startswith("analysis.experiments."):
        return "Analyses: experiments of the papers"
    for group, names in ANALYSIS_GROUPS.items():
        if module.removeprefix("analysis.") in names:
            return f"Analyses: {group[0].lower()}{group[1:]}"
    return subject_of(module)


def subject_of(module: str) -> str:
    """The first sentence of a module's docstring, up to a colon or a comma if it is
    long."""
    words = " ".join((importlib.import_module(module).__doc__ or module).split())
    sentence = words.split(". ")[0].rstrip(".")
    for sign in (":", ";", ",", " ("):
        if len(sentence) > 60:
            sentence = sentence.split(sign)[0]
    return sentence.replace("`", "").replace("*", "")


def heading(words: str, underline: str) -> list[str]:
    return [words, underline * len(words), ""]


def package_page(
    package: str, subject: str, sections: dict[str, list[str]], own: list[str]
) -> str:
    """A table of the names of each section, and the pages of those modules whose home is
    this package."""
    lines = [*heading(package, "="), f"{subject[0].upper()}{subject[1:]}.", ""]
    for title in sorted(sections):
        lines += heading(title, "-")
        lines += [".. autosummary::", "   :nosignatures:", ""]
        lines += [*(f"   ~{home}" for home in sections[title]), ""]
    pages = sorted(own, key=subject_of)
    lines += [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages), ""]
    return "\n".join(lines)


def module_page(module: str, homes: list[str]) -> str:
    """The descriptions of the names of a module."""
    lines = heading(subject_of(module), "=")
    for home in homes:
        lines += [f".. {directive(home)}:: {home}", ""]
    return "\n".join(lines)


def directive(path: str) -> str:
    package, name = path.rsplit(".", 1)
    value = getattr(importlib.import_module(package), name)
    if not inspect.isclass(value):
        return "autofunction"
    return "autoexception" if issubclass(value, Exception) else "autoclass"
