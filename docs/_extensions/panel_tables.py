"""Tables of the panels of each system, from a short run of it when the site is built."""

from analysis.panels import build_scene
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    TransformerSettings,
    simulate,
)

MARK = "<!-- panels -->"
SYSTEMS = {
    "Particles": ParticleSettings(n=5),
    "The network of CA": ModularSettings(n=5, hidden=4),
    "The network of VC": SparseSettings(
        length=4, sparsity=2, data=16, batch=8, hidden=4
    ),
    "Transformers": TransformerSettings(n=5, dim=8, heads=2, train_share=0.6),
}


def setup(app) -> dict:
    app.connect("source-read", add_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_tables(app, docname: str, source: list[str]) -> None:
    """Replace the mark in a page by a table for each system."""
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, "\n\n".join(map(panel_table, SYSTEMS)))


def panel_table(system: str) -> str:
    """Names of the panels of a system, the main ones in bold, and their
    explanations."""
    run = simulate(SYSTEMS[system], runs=1, steps=4, every=1, progress=False)
    scene = build_scene(run, 0)
    lines = [f"| {system} | |", "|---|---|"]
    for panel in scene.panels:
        bold = "**" * (panel.name in scene.main_panels)
        lines.append(f"| {bold}`{panel.name}`{bold} | {panel.explanation} |")
    return "\n".join(lines)
