"""The pages of the analyses and the gallery: what they show works as it stands, on
small files of the same names."""

import itertools
import os
import re
import shutil
import subprocess

import pytest

from analysis.command_line.command_list import ANALYSIS_GROUPS, EXPERIMENTS
from dynamics import ModularSettings, ParticleSettings, SparseSettings, simulate
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "analyses").glob("*.md"))
OTHER_PAGES = {"index", "own-analysis"}
"""The index, and the page whose module tests/analysis/command_line runs."""
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
ENSEMBLES = {
    "particles": ParticleSettings(fa=2.0, n=7),
    "modular": ModularSettings(weight_decay=1.0, n=7, hidden=8),
    "sparse": SparseSettings(length=4, sparsity=2, data=32, batch=16, hidden=8),
}


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory):
    """Small ensembles under the names that the pages use."""
    folder = tmp_path_factory.mktemp("ensembles")
    for name, settings in ENSEMBLES.items():
        simulate(
            settings,
            runs=7,
            steps=120,
            every=2,
            out=folder / f"{name}.nc",
        ).close()
    return folder


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.stem not in OTHER_PAGES],
    ids=lambda page: page.stem,
)
def test_the_python_of_a_page_runs(page, ensembles, tmp_path):
    shutil.copytree(ensembles, tmp_path / "runs")
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    for code in blocks:
        exec(compile(code, page.name, "exec"), {})
    pictures = re.findall(r'"(runs/[^"{}]+\.png)"', "".join(blocks))
    assert all((tmp_path / name).stat().st_size > 1000 for name in pictures)


def test_the_index_lists_every_page_and_every_analysis_has_one():
    index = (DOCS / "analyses" / "index.md").read_text()
    pages = {page.stem for page in PAGES} - {"index"}
    assert set(re.findall(r"\]\((\w[\w-]*)\.md\)", index)) == pages
    others = {"explore", "film", "frame", "paper", "verify"}
    sections = re.findall(r"^## (.*?)\n.*?```\{toctree\}(.*?)```", index, re.M | re.S)
    assert [title for title, _ in sections] == list(ANALYSIS_GROUPS)
    listed = []
    for title, tree in sections:
        names = tree.split()[1:]
        assert set(ANALYSIS_GROUPS[title]) - others <= set(names)
        listed += names
    assert sorted(listed) == sorted(pages)
    assert set(EXPERIMENTS) <= pages


def test_every_analysis_is_in_one_group_and_every_experiment_in_the_list():
    commands = [path.stem for path in (ROOT / "analysis").glob("[!_]*.py")]
    listed = [*itertools.chain(*ANALYSIS_GROUPS.values()), *EXPERIMENTS]
    assert sorted(listed) == sorted(commands)  # former names are modules, too
    experiments = (ROOT / "analysis" / "experiments").glob("[!_]*.py")
    assert sorted(path.stem for path in experiments) == sorted(EXPERIMENTS)


def test_every_picture_is_in_the_gallery_with_its_lines():
    from docs.make_pictures import read_gallery

    _, pictures = read_gallery()
    assert set(pictures) == set(os.listdir(DOCS / "pictures"))
    for page in PAGES:
        assert set(re.findall(r"\.\./pictures/([\w.-]+)", page.read_text())) <= set(
            pictures
        )


def test_pictures_are_drawn_again(monkeypatch, tmp_path, capsys):
    from docs import make_pictures

    gallery = (
        "```sh\nmkdir -p runs\n```\n\n![A run](pictures/a.png)\n\nWhat it"
        " shows.\n\n```sh\nprintf drawn > runs/b.png\necho 'picture     runs/b.png  (3"
        " x 4)'\n```\n"
    )
    (tmp_path / "pictures").mkdir()
    (tmp_path / "gallery.md").write_text(gallery)
    monkeypatch.setattr(make_pictures, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match=r"no picture of the gallery: \['b'\]"):
        make_pictures.main(["b", "a.png"])
    assert not (tmp_path / "pictures" / "a.png").exists()
    make_pictures.main([])
    assert "not drawn" in capsys.readouterr().out
    make_pictures.main(["a"])
    assert (tmp_path / "pictures" / "a.png").read_text() == "drawn"
    assert re.fullmatch(r"a\.png +0 s\n", capsys.readouterr().out)
    with pytest.raises(subprocess.CalledProcessError):
        make_pictures.run_lines("false\ntrue")
