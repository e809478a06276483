"""Films as files: raw frames piped to ffmpeg, the copy that imageio-ffmpeg brings. No frame is ever on the disk.

The same frames give the same bytes: no date, no version, a fixed number of threads.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from analysis.output.files import replace_file
from dynamics.errors import MissingPackage, RecordingError

try:
    import imageio_ffmpeg
except ImportError:
    raise MissingPackage("films need imageio-ffmpeg, which comes with: pip install 'training-dynamics[view]'") from None

_REPRODUCIBLE = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1"]

H264_OPTIONS = [
    "-preset",
    "veryfast",
    "-crf",
    "21",
    "-threads",
    "2",
    "-movflags",
    "+faststart",
    "-f",
    "mp4",
    *_REPRODUCIBLE,
]
"""What browsers play, beginning before all is loaded."""

_GIF_COLOURS = 96
_GIF_OPTIONS = [
    "-filter_complex",
    f"split[a][b];[a]palettegen=max_colors={_GIF_COLOURS}:reserve_transparent=1[p];[b][p]paletteuse=dither=none",
    "-loop", "0", "-threads", "1", "-f", "gif", *_REPRODUCIBLE,
]  # fmt: skip
"""One palette for the whole film; without dithering what stands still costs nothing."""

_WriteFrame = Callable[[np.ndarray], None]


@contextmanager
def open_film_encoder(path: Path, size: tuple[int, int], fps: float) -> Iterator[_WriteFrame]:
    """What takes frames (height, width, rgba), uint8, and makes of them the MP4 (H.264) or GIF at a path.

    size: width and height, for an MP4 even. The file takes its name when it is whole: after an error or an
    interruption there is none, or an earlier one. Raises RecordingError.
    """
    gif = path.suffix.lower() == ".gif"
    count = 0
    with replace_file(path) as temporary:
        frames = imageio_ffmpeg.write_frames(
            temporary, size, pix_fmt_in="rgba", pix_fmt_out="pal8" if gif else "yuv420p", fps=fps, quality=None,
            codec="gif" if gif else "libx264", macro_block_size=1, ffmpeg_log_level="fatal",
            output_params=_GIF_OPTIONS if gif else H264_OPTIONS,
        )  # fmt: skip
        try:
            frames.send(None)
        except RuntimeError as error:  # no binary for this kind of machine
            raise MissingPackage(f"films need ffmpeg: {error}") from None

        def write(frame: np.ndarray) -> None:
            nonlocal count
            try:
                frames.send(frame)
            except OSError:
                raise _stopped(path) from None
            count += 1

        try:
            yield write
        except BaseException as error:
            with suppress(BaseException):
                frames.throw(error)  # ends ffmpeg at once
            raise
        frames.close()
        if _frames_in(temporary) != count:  # ffmpeg's own end is not told
            raise _stopped(path)


def _stopped(path: Path) -> RecordingError:
    folder = path.absolute().parent
    why = ", the disk is full" if folder.is_dir() and shutil.disk_usage(folder).free < 2**20 else ""
    return RecordingError(f"{path}: could not be written (the encoder stopped{why})")


def _frames_in(path: Path) -> int:
    try:
        return int(imageio_ffmpeg.count_frames_and_secs(path)[0])
    except (OSError, RuntimeError):
        return -1
