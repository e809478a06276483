"""Draw the pictures of the gallery again.

python docs/make_pictures.py                 # all with stored data
python docs/make_pictures.py events llc      # some, by the names of their files
python docs/make_pictures.py --measure llc   # by their command lines
python docs/make_pictures.py --measure       # all, which takes hours

A picture whose file in docs/picture-data has all its data is drawn from this file.
Others, and all with --measure, are drawn by the command lines below them in
docs/gallery.md, which write the file anew, and only if they are named.

run.gif, the film that opens README and the site, is of a network and of particles that
start at its first embedding; the first entry of the gallery makes both and films them.
Runs that exist in runs/ are used again. The picture of the browser page needs Chromium
(`make browser`)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from analysis import plots
from docs.picture_data import read_drawing, seal_drawing

DOCS = Path(__file__).parent
ENTRY = re.compile(r"!\[[^\]]*\]\(pictures/([^)]+)\)\n\n.*?```sh\n(.*?)```", re.DOTALL)
DRAWN = re.compile(r"^(?:picture|film|figure:) +(\S+)", re.MULTILINE)
GUIDE = DOCS / "guides" / "own-model.md"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
RECORDER = DOCS / "picture_data.py"
VIEWPORT = {"width": 1400, "height": 1100}


def read_gallery() -> tuple[str, dict[str, str]]:
    """The command lines that make the ensembles, and those of each picture by the name
    of its file."""
    text = (DOCS / "gallery.md").read_text()
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0], dict(ENTRY.findall(text))


def draw_picture(name: str, lines: str, measure: bool = False) -> None:
    """Draw a picture from its data, or by its command lines."""
    picture = DOCS / "pictures" / name
    data = data_file(name)
    if measure or not has_all_data(name):
        measure_picture(picture, data, lines)
    else:
        plots.save_figure(read_drawing(data).figure(), picture)
    if data.exists():
        seal_drawing(data, picture)


def data_file(name: str) -> Path:
    """The file with the data of a picture."""
    return DOCS / "picture-data" / f"{Path(name).stem}.zip"


def has_all_data(name: str) -> bool:
    """Whether a picture can be drawn from its file."""
    return data_file(name).exists() and read_drawing(data_file(name)).whole


def measure_picture(picture: Path, data: Path, lines: str) -> None:
    """Run command lines, copy the last picture that they report, and keep its data."""
    if "analysis.explore" in lines:
        *before, page = lines.strip().splitlines()
        run_lines("\n".join(before))
        save_screenshot(f"{page} --no-browser --port 0", picture)
        return
    if "mine.py" in lines:
        write_example_model(Path("runs"))
    output = run_lines(lines, data.resolve())
    folder = Path("runs" if lines.startswith("cd runs\n") else "")
    shutil.copy(folder / DRAWN.findall(output)[-1], picture)


def run_lines(lines: str, data: Path | None = None) -> str:
    """What some lines of shell print. data: file for the data of the last figure that
    they draw."""
    run = shlex.quote(sys.executable)
    script = f'exec {run} "$@"\n'
    if data is not None:
        script = f'exec {run} {shlex.join(map(str, (RECORDER, data)))} "$@"\n'
    if "python -m analysis." in lines:  # which draws the picture
        script = f'case "$2" in sims.*) exec {run} "$@";; esac\n{script}'
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "python"
        python.write_text(f"#!/bin/sh\n{script}")
        python.chmod(0o755)
        environment = ENVIRONMENT | {"PATH": f"{folder}:{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", "-ec", lines],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


def write_example_model(folder: Path) -> None:
    """Write the two files of the guide on own models."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name, code in zip(("mine.py", "my_loss.py"), blocks, strict=False):
        (folder / name).write_text(code)


def save_screenshot(line: str, path: Path) -> None:
    """Serve the page of `analysis.explore` by a command line and save what Chromium
    shows."""
    from playwright.sync_api import sync_playwright

    with subprocess.Popen(
        [sys.executable, *line.split()[1:]],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        address = server.stdout.readline().split()[1]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=VIEWPORT)
            page.goto(address)
            page.wait_for_function(
                "() => window.Bokeh && Bokeh.documents.length &&"
                " Bokeh.documents[0].is_idle"
            )
            page.wait_for_timeout(5000)
            page.screenshot(path=path)
            browser.close()
        server.terminate()


def main(words: list[str]) -> None:
    """Draw the pictures with these names, or all; print the time that each takes."""
    ensembles, pictures = read_gallery()
    names = [Path(word).stem for word in words if word != "--measure"]
    measure = "--measure" in words
    known = sorted(Path(name).stem for name in pictures)
    if unknown := sorted({*names} - {*known}):
        sys.exit(f"no picture of the gallery: {unknown}; there are {', '.join(known)}")
    (DOCS / "picture-data").mkdir(exist_ok=True)
    if measure or names:
        run_lines(ensembles)
    for name, lines in pictures.items():
        if Path(name).stem in names or not names:
            begin = time.monotonic()
            if not (names or measure or has_all_data(name)):
                print(f"{name:<24}not drawn: its data are not stored, or not whole")
                continue
            draw_picture(name, lines, measure)
            print(f"{name:<24}{time.monotonic() - begin:6.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
