"""Draw the pictures of the gallery again, by the command lines below each picture in
docs/gallery.md.

python docs/make_pictures.py              # all of them
python docs/make_pictures.py events film  # some, by the names of their files

run.gif, the film that opens README and the site, is of a network and of particles that
start at its first embedding; the first entry of the gallery makes both and films them.
Runs that exist in runs/ are used again. The picture of the browser page needs Chromium
(`make browser`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCS = Path(__file__).parent
ENTRY = re.compile(r"!\[[^\]]*\]\(pictures/([^)]+)\)\n\n.*?```sh\n(.*?)```", re.DOTALL)
DRAWN = re.compile(r"^(?:picture|film|figure:) +(\S+)", re.MULTILINE)
GUIDE = DOCS / "guides" / "own-model.md"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
ENVIRONMENT["PATH"] = (  # `python` is the one that runs this
    f"{Path(sys.executable).parent}:{os.environ['PATH']}"
)
VIEWPORT = {"width": 1400, "height": 900}


def read_gallery() -> tuple[str, dict[str, str]]:
    """The command lines that make the ensembles, and those of each picture by the name
    of its file."""
    text = (DOCS / "gallery.md").read_text()
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0], dict(ENTRY.findall(text))


def draw_picture(name: str, lines: str) -> None:
    """Run the command lines and copy the last picture that they report."""
    if "analysis.explore" in lines:
        *before, page = lines.strip().splitlines()
        run_lines("\n".join(before))
        save_screenshot(f"{page} --no-browser --port 0", DOCS / "pictures" / name)
        return
    if "mine.py" in lines:
        write_example_model(Path("runs"))
    output = run_lines(lines)
    folder = Path("runs" if lines.startswith("cd runs\n") else "")
    shutil.copy(folder / DRAWN.findall(output)[-1], DOCS / "pictures" / name)


def run_lines(lines: str) -> str:
    """What some lines of shell print."""
    words = ["bash", "-ec", lines]
    return subprocess.run(
        words, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True
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
        line.split(), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
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


def main(names: list[str]) -> None:
    """Draw the pictures with these names, or all; print the time that each takes."""
    ensembles, pictures = read_gallery()
    run_lines(ensembles)
    for name, lines in pictures.items():
        if not names or Path(name).stem in names:
            begin = time.monotonic()
            draw_picture(name, lines)
            print(f"{name:<24}{time.monotonic() - begin:6.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
