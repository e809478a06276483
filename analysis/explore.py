"""A page in the browser: a story that plays by itself, recorded runs, live particles,
and networks in training.

python -m analysis.explore [RUN.nc ...] [--port N] [--no-browser]
python -m analysis.explore RUN.nc --run-indices 3 --export page.html

The page is accessible only from this machine and loads no external resources. Its URL
contains the current view."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, NoReturn

import tyro

import dynamics
from analysis import explorer
from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer


@dataclasses.dataclass(frozen=True)
class Options:
    """Open a page in the browser that shows a story of what particles and networks do,
    recorded runs, live particles, and networks in training."""

    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Trajectory files; runs may be in progress. Default: none, the story opens."""
    port: int = 5006
    """Port of the local server; 0 selects any free port."""
    browser: bool = True
    """Open the page in the default browser, if there is a display."""
    export: Path | None = None
    """Write one self-contained HTML file that plays a run without a server, and exit.
    Default: serve the page."""
    run_indices: tuple[int, ...] = ()
    """With --export: index of the run, or of two runs to compare. Default: the first
    successful run."""

    former_names: ClassVar[Mapping[str, str]] = {"--run": "--run-indices"}


def main(options: Options) -> None:
    """Serve the page until interrupted, or export it. Raises SettingsError,
    TrajectoryError, RecordingError."""
    check_integer("port", options.port, 0, 65535)
    if options.export is not None:
        _export(options, options.export)
    elif options.run_indices:
        runs = " ".join(map(str, options.run_indices))
        raise SettingsError(
            "run_indices",
            runs,
            "no value without --export: runs are chosen on the page",
        )
    else:
        for path in options.trajectories:
            dynamics.open_trajectory(path).close()  # verifies the checksum
        _serve(options)


def _serve(options: Options) -> None:
    """Serve the page until interrupted. Raises SettingsError."""
    files = explorer.OpenFiles(options.trajectories)
    server, address = explorer.make_server(
        lambda document: explorer.fill_document(document, files), options.port
    )
    print(
        f"page        {address}\n            for this machine only; Ctrl-C ends it",
        flush=True,
    )
    if not options.trajectories:
        print(
            "            recorded runs: python -m sims.particles makes some, then name"
            " their files here",
            flush=True,
        )
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _exit_on_signal)
    server.start()
    displays = ("DISPLAY", "WAYLAND_DISPLAY")
    has_display = any(os.environ.get(name) for name in displays)
    has_window_system = sys.platform in ("darwin", "win32") or has_display
    if options.browser and has_window_system:  # not a browser in the terminal
        server.io_loop.call_later(0, webbrowser.open, address)
    server.io_loop.start()


def _exit_on_signal(signum: int, frame: object) -> NoReturn:
    """Exit when interrupted; there is nothing to resume."""
    print("interrupted: the page has ended", file=sys.stderr)
    sys.exit(128 + signum)


def _export(options: Options, path: Path) -> None:
    """Write the page of a run, or of two, to a file. Raises SettingsError,
    TrajectoryError, RecordingError."""
    files = options.trajectories
    if not 1 <= len(files) <= 2:
        raise SettingsError(
            "export", f"{len(files)} trajectories", "one, or two to compare"
        )
    if len(options.run_indices) > 2:
        runs = " ".join(map(str, options.run_indices))
        raise SettingsError("run_indices", runs, "one run index, or two to compare")
    runs_shown = options.run_indices or (None,) * len(files)
    size = explorer.export_page(path, files, runs_shown)
    print(f"page        {path}  ({size / 1e6:.1f} MB, opens without a server)")


if __name__ == "__main__":
    run_command(main, Options, "analysis.explore")
