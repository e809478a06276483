"""The command that trains transformers: presets, trajectory, table, picture; analyses
of any system read its file."""

from matplotlib.image import imread

from dynamics import open_trajectory, read_settings
from sims.transformer import DEFAULTS

SMALL = (
    "--dim",
    8,
    "--heads",
    2,
    "--runs",
    2,
    "--epochs",
    40,
    "--every",
    4,
    "--train-share",
    0.9,
)


def test_a_preset_is_changed_by_other_options(output_of, tmp_path):
    printed = output_of(
        "sims.transformer",
        "--preset",
        "small",
        "--n",
        5,
        "--attention-rate",
        0.5,
        *SMALL,
    )
    (path,) = (tmp_path / "runs").glob("*.nc")
    with open_trajectory(path) as trajectory:
        settings = read_settings(trajectory)
        assert dict(trajectory["embedding"].sizes) == {
            "run": 2,
            "step": 11,
            "token": 6,
            "axis": 8,
        }
    assert (settings.weight_decay, settings.equals_token, settings.initialisation) == (
        1.0,
        True,
        "nanda",
    )
    assert (settings.n, settings.attention_rate) == (5, 0.5)
    assert imread(path.with_suffix(".png")).shape[0] > 300
    assert printed.splitlines()[-1].split()[:5] == ["add", "5", "0.5", "40", "2"]
    assert DEFAULTS(["--preset", "nanda"]).epochs == 40_000
    assert DEFAULTS(["--preset=zhong"]).settings.n == 59


def test_analyses_of_any_system_read_the_file(output_of, tmp_path):
    output_of("sims.transformer", "--n", 5, *SMALL, "--out", "a.nc")
    output_of("sims.transformer", "--branch", "a.nc", "--step", 20, "--lr", 0.01)
    for command in ("events", "formation", "frame"):
        output_of(f"analysis.{command}", "a.nc")
    assert "found transformer" in output_of("analysis.curvature", "a.nc", code=1)
