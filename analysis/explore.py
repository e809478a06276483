"""A page on which to look: at recorded runs, at particles that move, at a network that learns.

python -m analysis.explore [RUN.nc ...] [--port N] [--no-browser]
python -m analysis.explore RUN.nc --run 3 --export page.html

The page is served to this machine alone and loads nothing from anywhere else. What is shown stands in its address.
"""

import dataclasses
import os
import signal
import sys
import webbrowser
from pathlib import Path
from typing import NoReturn

import tyro

from analysis.command_line.parsing import run_command
from dynamics.settings import SettingsError, check_integer


@dataclasses.dataclass(frozen=True)
class Options:
    """Look at recorded runs, at particles that move, at a network that learns, on a page in the browser."""

    trajectories: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Trajectories, finished or still running. None leaves particles and training, which are computed as they are
    looked at."""
    port: int = 5006
    """Port of the page on this machine; 0 takes any that is free."""
    browser: bool = True
    """Whether to open the page in the default browser, where there is a display."""
    export: Path | None = None
    """Write one self-contained HTML file, which scrubs through a run without a server, and end."""
    run: tuple[int, ...] = ()
    """Place of the run that is exported, or of two, to compare. Without, one worth seeing."""


def main(options: Options) -> None:
    """Serve until interrupted, or export. Raises SettingsError, TrajectoryError, RecordingError."""
    check_integer("port", options.port, 0, 65535)
    if options.export is not None:
        _export(options)
        return
    if options.run:
        raise SettingsError(
            "run", " ".join(map(str, options.run)), "no value without --export: the page has a list to choose from"
        )
    _check_files(options.trajectories)
    _serve(options)


def _check_files(paths: tuple[Path, ...]) -> None:
    """See that all are trajectories, before anything is shown. Raises TrajectoryError."""
    from dynamics.trajectory.reader import open_trajectory

    for path in paths:
        open_trajectory(path).close()


def _serve(options: Options) -> None:
    """Give out the page until interrupted. Raises SettingsError."""
    from analysis.explorer.open_files import OpenFiles
    from analysis.explorer.page import fill_document
    from analysis.explorer.server import make_server

    files = OpenFiles(options.trajectories)
    files.warm()
    server, address = make_server(lambda document: fill_document(document, files), options.port)
    print(f"page        {address}\n            for this machine alone; Ctrl-C ends it", flush=True)
    if not options.trajectories:
        print("            recorded runs: python -m sims.particles makes some, then name their files here", flush=True)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _exit_on_signal)
    server.start()
    if options.browser and _has_display():
        server.io_loop.call_later(0, webbrowser.open, address)
    server.io_loop.start()


def _exit_on_signal(signum: int, frame: object) -> NoReturn:
    """Leave when interrupted: there is nothing to go on with."""
    print("interrupted: the page has ended", file=sys.stderr)
    sys.exit(128 + signum)


def _has_display() -> bool:
    """Whether a browser has somewhere to appear; without, one in the terminal might begin."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def _export(options: Options) -> None:
    """Write the self-contained page of a run, or of two. Raises SettingsError, TrajectoryError, RecordingError."""
    from analysis.explorer.export import export_page as export

    files = options.trajectories
    if not 1 <= len(files) <= 2:
        raise SettingsError("export", f"{len(files)} trajectories", "one to look at, or two to compare")
    if len(options.run) > 2:
        raise SettingsError("run", " ".join(map(str, options.run)), "one place, or two to compare")
    size = export(options.export or Path(), files, options.run or (None,) * len(files))
    print(f"page        {options.export}  ({size / 1e6:.1f} MB, opens without a server)")


if __name__ == "__main__":
    run_command(main, Options, "analysis.explore")
