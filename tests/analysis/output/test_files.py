"""Files that analyses write: whole or not at all, and never in the place of a
trajectory."""

import os
import re
import resource
from pathlib import Path

import pytest

from analysis.output.files import STALE_SECONDS, plain_stem, replace_file
from dynamics import ParticleSettings, RecordingError, open_trajectory, simulate


def write(path, text="new"):
    with replace_file(path) as temporary:
        temporary.write_text(text)


def test_a_file_takes_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "a" / "picture.png"
    write(path, "old")
    with pytest.raises(KeyError), replace_file(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    write(path)
    assert path.read_text() == "new"
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.png").symlink_to("target.png")
    write(tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "target.png").read_text() == "new"


def test_a_picture_does_not_replace_a_trajectory_under_another_name(tmp_path):
    simulate(ParticleSettings(n=3, fa=0.5), runs=2, steps=5, out="run.nc").close()
    os.rename("run.nc", "run.png")
    with pytest.raises(RecordingError, match="is a NetCDF file"):
        write(tmp_path / "run.png")
    open_trajectory("run.png").close()


def test_what_was_left_by_the_killed_is_removed_but_not_what_others_are_writing(
    tmp_path,
):
    left, fresh, other = (
        tmp_path / name
        for name in (".p[1].png.12.tmp", ".p[1].png.13.tmp", ".q.png.12.tmp")
    )
    for file in (left, fresh, other):
        file.write_text("half")
    for file in (left, other):
        os.utime(file, (0, os.path.getmtime(file) - 2 * STALE_SECONDS))
    write(tmp_path / "p[1].png")
    assert not left.exists()
    assert fresh.exists()
    assert other.exists()


def test_a_folder_that_cannot_be_is_told_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="could not be written"):
        write(tmp_path / "file" / "picture.png")


def test_a_device_and_a_folder_stay_what_they_are(tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "device.png").symlink_to(os.devnull)
    for name in ("folder.png", "device.png"):
        with pytest.raises(RecordingError, match="is a folder or a device"):
            write(tmp_path / name)
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize("option", ["--out", "--csv"])
def test_an_output_in_a_folder_that_cannot_be_written_is_refused_before_any_work(
    typed, option
):
    Path("file").write_text("not a folder")
    code, out, err = typed("analysis.compare", "absent.nc", option, "file/result.csv")
    assert (code, out) == (2, "")
    assert err.startswith(
        f"error: {option}: found file/result.csv, allowed is a file in a folder that"
        " can be written"
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A run that the commands below draw and measure."""
    path = tmp_path_factory.mktemp("shown") / "a.nc"
    simulate(ParticleSettings(n=5), runs=3, steps=20, out=path).close()
    return path


@pytest.mark.parametrize(
    "command",
    [
        "formation --out r.nc",
        "formation --csv t.csv",
        "formation --csv t.tex",
        *(f"frame --out p.{suffix}" for suffix in ("png", "pdf", "svg")),
        "explore --export page.html",
    ],
)
def test_a_full_disk_is_told_in_a_line(command, shown, typed, tmp_path):
    """A limit on the size of files stands for the full disk."""
    name, *options = command.split()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
    try:
        code, _, err = typed(f"analysis.{name}", shown, *options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 1
    said = r"error: .*could not be written \(.*limit on file size is reached.*\)\n"
    assert re.fullmatch(said, err)
    assert not list(tmp_path.glob("*.tmp"))


def test_an_error_of_a_library_on_a_disk_with_room_stays_what_it_is(tmp_path):
    with (
        pytest.raises(RuntimeError, match="of its own"),
        replace_file(tmp_path / "r.nc"),
    ):
        raise RuntimeError("of its own")


@pytest.mark.parametrize(
    ("pattern", "stem"),
    [
        ("runs/*.nc", "runs"),
        ("runs/particles-*.nc", "particles"),
        ("runs/s[0-9].nc", "s-0-9"),
        ("runs/s[0-9]?_b*.nc", "s-0-9-b"),
        ("*-fa2-*.nc", "fa2"),
        ("particles-1-.nc", "particles-1-"),
    ],
)
def test_names_of_results_of_a_pattern_have_the_words_between_its_wildcards(
    pattern, stem
):
    assert plain_stem(Path(pattern)) == stem


def test_the_name_of_a_file_with_brackets_is_kept(tmp_path):
    for name, stem in (("p[1].nc", "p-1"), ("particles-1-.nc", "particles-1-")):
        (tmp_path / name).write_text("")
        assert plain_stem(tmp_path / name) == stem
