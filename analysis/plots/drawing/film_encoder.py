"""Films as files: raw frames are piped to ffmpeg, which imageio-ffmpeg installs. Frames
are never stored on disk.

Equal frames give identical files, as date and version are omitted and the number of
threads is fixed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.colors import to_rgba_array

from analysis.output.files import replace_file
from analysis.panels.run_scene import build_scene
from analysis.panels.scene import LayerArrays
from analysis.plots.drawing.film_clock import FilmClock, time_is_uneven
from analysis.plots.drawing.film_timeline import FilmFrames, film_frames, shown_steps
from analysis.plots.drawing.panel_grid import PanelGrid
from dynamics.errors import MissingPackage, RecordingError
from dynamics.folders import full_disk_reason
from dynamics.progress import progress_bar

try:
    import imageio_ffmpeg
except ImportError:
    raise MissingPackage(
        "films need imageio-ffmpeg, which comes with: pip install"
        " 'training-dynamics[view]'"
    ) from None

_FRAMES_PER_BATCH = 24
"""Number of frames whose arrays are computed together, while earlier frames are
drawn."""

_REPRODUCIBLE = "-fflags +bitexact -flags:v +bitexact -map_metadata -1".split()

H264_OPTIONS = [
    *"-preset veryfast -crf 21 -threads 2 -movflags +faststart -f mp4".split(),
    *_REPRODUCIBLE,
]
"""Browsers play this format, and start playing before the whole file is loaded."""

_GIF_FILTER = "split[a][b];[a]palettegen=max_colors=64:reserve_transparent=1[p];[b][p]paletteuse=dither=none"
"""One palette for the whole film. Without dithering, areas that do not change need no
bytes."""

_GIF_OPTIONS = [
    "-filter_complex",
    _GIF_FILTER,
    *"-loop 0 -threads 1 -f gif".split(),
    *_REPRODUCIBLE,
]


def film_size(grid: PanelGrid, aspect: float = 0.0, below: int = 0) -> tuple[int, int]:
    """Width and height in pixels, both even, of the smallest picture with a ratio of
    both that contains a panel grid and a number of rows below it; without a ratio those
    of the two."""
    height = grid.height + below
    width = max(grid.width, math.ceil(height * aspect / 2) * 2)
    if aspect:
        height = max(height, math.ceil(grid.width / aspect / 2) * 2)
    return width, height


def film_clock(grid: PanelGrid, film: FilmFrames, fps: float) -> FilmClock | None:
    """The strip below the panels of a film whose time is uneven."""
    if not time_is_uneven(film, grid.scenes[0].steps):
        return None
    return FilmClock(grid, film, fps)


def write_film(
    grid: PanelGrid,
    film: FilmFrames,
    path: Path,
    fps: float,
    progress: bool = True,
    size: tuple[int, int] | None = None,
) -> None:
    """Draw a panel grid at all frames of a film into an MP4 or GIF.

    size: width and height of the film, by default those of the grid, which is in its
    middle on the colour of the background. Raises RecordingError."""
    width, height = size or (grid.width, grid.height)
    clock = film_clock(grid, film, fps)
    below = 0 if clock is None else clock.height
    if size is None:
        height += below
    background = (255 * to_rgba_array(grid.figure.get_facecolor())).round()
    canvas = np.tile(background.astype(np.uint8), (height, width, 1))
    top = (height - grid.height - below) // 2
    left = (width - grid.width) // 2
    middle = canvas[top : top + grid.height + below, left : left + grid.width]
    steps = shown_steps(film, grid.scenes[0].steps)
    with (
        open_film_encoder(path, (width, height), fps) as write,
        progress_bar(
            total=film.length,
            unit="frame",
            quiet=not progress,
        ) as bar,
    ):
        for picture, hold, step in zip(
            draw_frames(grid, film), film.holds.tolist(), steps.tolist(), strict=True
        ):
            middle[: grid.height] = picture
            if clock is not None:
                middle[grid.height :] = clock.at(step)
            for _ in range(hold):
                write(canvas)
            bar.update(hold)


def draw_frames(grid: PanelGrid, film: FilmFrames) -> Iterator[np.ndarray]:
    """The panel grid at each frame of a film, (height, width, rgba); the next picture
    overwrites it.

    A second thread computes the arrays of the next frames while these are drawn.
    """

    def compute(batch: slice) -> list[LayerArrays]:
        result = []
        for index, scene in enumerate(grid.scenes):
            frames = film.frames[batch, index]
            if film.following is None or film.fractions is None:
                result.append(scene.arrays(frames, grid.panels))
                continue
            ends = np.stack([frames, film.following[batch, index]])
            recorded, places = np.unique(ends, return_inverse=True)
            first, following = places.reshape(ends.shape)
            fractions = film.fractions[batch]
            result.append(
                {
                    name: interpolate_arrays(
                        values[first], values[following], fractions
                    )
                    for name, values in scene.arrays(recorded, grid.panels).items()
                }
            )
        return result

    batches = [
        slice(k, min(k + _FRAMES_PER_BATCH, len(film.frames)))
        for k in range(0, len(film.frames), _FRAMES_PER_BATCH)
    ]
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(compute, batches[0])
        for batch, following in itertools.zip_longest(batches, batches[1:]):
            arrays = pending.result()
            if following is not None:
                pending = pool.submit(compute, following)
            for index, k in enumerate(range(batch.start, batch.stop)):
                frames = film.frames[k].tolist()
                following_frames, fraction = None, 0.0
                if film.following is not None and film.fractions is not None:
                    following_frames = film.following[k].tolist()
                    fraction = float(film.fractions[k])
                grid.show(frames, arrays, index, following_frames, fraction)
                yield grid.draw()


def interpolate_arrays(
    values: np.ndarray, following: np.ndarray, fractions: np.ndarray
) -> np.ndarray:
    """Arrays between those of two frames, (frame, ...): linear in the fraction, (frame,).
    Classes, which are integers, and what one of the frames lacks (NaN) stay as in the
    first frame."""
    if values.dtype.kind != "f":
        return values
    fractions = fractions.reshape(-1, *(1,) * (values.ndim - 1))
    between = values + fractions * (following - values)
    return np.where(np.isfinite(following), between, values)


def film_run(
    trajectory: xr.Dataset,
    path: str | Path,
    run: int = 0,
    panels: Sequence[str] | None = None,
    columns: int | None = None,
    width: int = 960,
    fps: float = 10,
    frames: int = 110,
) -> Path:
    """Write a film of a run as an MP4 or GIF.

    Parameters
    ----------
    trajectory : xarray.Dataset
        A trajectory of any system.
    path : str or Path
        File to write, NAME.mp4 or NAME.gif.
    run, panels, columns, width
        As of `plot_run`.
    fps : float
        Frames of the film per second.
    frames : int
        Largest length of the film: slower at drops, rises and spikes of the loss or
        force, faster in plateaus, and the last recorded frame.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    SettingsError, TrajectoryError
        As of `plot_run`.
    RecordingError
        If the file cannot be written.
    MissingPackage
        If imageio-ffmpeg is not installed.

    Examples
    --------
    >>> from dynamics import ParticleSettings, simulate
    >>> trajectory = simulate(ParticleSettings(n=5), runs=1, steps=2, progress=False)
    >>> film_run(trajectory, "run.gif", panels=["embedding"], width=320).name
    'run.gif'
    """
    scene = build_scene(trajectory, run, panels=panels, follow=0.5)
    last = max(1, round(fps / 2))
    film = film_frames([scene], by_events=True, last=last, most=frames)
    grid = PanelGrid([scene], columns=columns, width=width, even=True)
    write_film(grid, film, Path(path), fps, progress=False)
    return Path(path)


@contextmanager
def open_film_encoder(
    path: Path, size: tuple[int, int], fps: float
) -> Iterator[Callable[[np.ndarray], None]]:
    """Context manager that returns a function, which appends a frame (height, width,
    rgba) uint8 to an MP4 or GIF.

    size: width and height, even for an MP4 (H.264). The file is moved to `path` when
    complete; after an error or interruption an earlier file of that name remains.
    Raises RecordingError."""
    codec = "libx264"
    pixels = "yuv420p"
    parameters = H264_OPTIONS
    if path.suffix.lower() == ".gif":
        codec = "gif"
        pixels = "pal8"
        parameters = _GIF_OPTIONS
    count = 0
    with replace_file(path) as temporary:
        frames = imageio_ffmpeg.write_frames(
            temporary,
            size,
            pix_fmt_in="rgba",
            pix_fmt_out=pixels,
            fps=fps,
            quality=None,
            codec=codec,
            macro_block_size=1,
            ffmpeg_log_level="fatal",
            output_params=parameters,
        )
        try:
            frames.send(None)
        except RuntimeError as error:  # no binary for this kind of machine
            raise MissingPackage(f"films need ffmpeg: {error}") from None

        def write(frame: np.ndarray) -> None:
            nonlocal count
            try:
                frames.send(frame)
            except OSError:
                raise _encoder_error(path, temporary) from None
            count += 1

        try:
            yield write
        except BaseException as error:
            with suppress(BaseException):
                frames.throw(error)  # ends ffmpeg at once
            raise
        frames.close()
        if (
            _count_frames(temporary) != count
        ):  # ffmpeg does not report that it ended early
            raise _encoder_error(path, temporary)


def _encoder_error(path: Path, temporary: Path) -> RecordingError:
    """The error for a film whose encoder has stopped, with the reason if the disk is
    full or a limit is reached."""
    reason = full_disk_reason(temporary) or "the encoder stopped"
    return RecordingError(f"{path}: could not be written ({reason})")


def _count_frames(path: Path) -> int:
    try:
        return int(imageio_ffmpeg.count_frames_and_secs(path)[0])
    except (OSError, RuntimeError):
        return -1
