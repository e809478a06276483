"""Planes in which points are seen, and limits that hold them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from analysis.panels.limits import following_limits, panel_limits, pixel_centres
from analysis.structures.projection import fit_projection


def test_principal_axes_hold_the_most_variance_and_keep_their_direction(generator):
    x = generator.standard_normal((40, 5)) * [1, 5, 0.1, 3, 0.2] + 7
    plane = fit_projection(x)
    share = np.sort(np.linalg.eigvalsh(np.cov(x.T)))[-2:].sum() / np.trace(np.cov(x.T))
    assert plane.note == f"principal axes of 5: {share:.0%}"
    assert_allclose(plane.basis @ plane.basis.T, np.eye(2), atol=1e-12)
    assert (np.abs(plane.basis).argmax(axis=1) == [1, 3]).all()
    assert (plane.basis[[0, 1], [1, 3]] > 0).all()
    assert_allclose(fit_projection(1e300 * x).basis, plane.basis)
    assert (
        fit_projection(np.ones((1, 4))).note == "principal axes of 4"
    )  # a single point varies along no axis


def test_what_stands_at_a_place_is_drawn_there(generator):
    x = generator.standard_normal((9, 4))
    plane, places, through = (
        fit_projection(x),
        generator.standard_normal((6, 2)),
        x.mean(axis=0),
    )
    points = plane.points(places, through[None])
    assert_allclose(plane.places(points)[0], places, atol=1e-6)
    in_plane = np.linalg.lstsq(plane.basis.T, (points[0] - through).T, rcond=None)[1]
    assert_allclose(
        in_plane, 0, atol=1e-12
    )  # differences from the mean lie along the basis


def test_limits_hold_all_frames_unless_few_reach_too_far(generator):
    places = generator.uniform(-1, 1, (200, 30, 2))
    inside = panel_limits(places)
    assert (inside.outside, inside.note) == (0, "")
    assert inside.x[1] - inside.x[0] == pytest.approx(inside.y[1] - inside.y[0])
    assert (places.min(axis=(0, 1)) > [inside.x[0], inside.y[0]]).all()
    assert (places.max(axis=(0, 1)) < [inside.x[1], inside.y[1]]).all()
    places[50] *= 100
    leaving = panel_limits(places)
    assert leaving.x[1] < 1.3
    assert (leaving.outside, leaving.note) == (
        1 / 200,
        "some outside in under 1% of frames",
    )
    assert leaving._replace(outside=0.023).note == "some outside in 2% of frames"
    places[50] /= 70
    assert panel_limits(places).outside == 0  # a little further is no reason to cut
    growing = np.linspace(0.1, 50, 100)[:, None, None] * generator.uniform(
        -1, 1, (1, 5, 2)
    )
    assert panel_limits(growing).outside == 0
    growing[-1] *= 1000
    assert panel_limits(growing).outside == 0  # a run's end is always seen
    assert (
        panel_limits(growing, diverged=True).x[1] < 100
    )  # but not that of one that diverged


def test_reach_is_from_where_the_points_usually_are(generator):
    places = generator.uniform(-1, 1, (200, 30, 2))
    places[0] += [50, 0]
    places[100] -= [70, 0]  # hardly farther than the first frame
    assert panel_limits(places).outside == 0
    places[100] += [190, 0]  # more than twice as far
    assert panel_limits(places).outside == 1 / 200


def test_reach_in_a_diverged_run_is_from_where_it_started(generator):
    places = generator.uniform(-1, 1, (200, 30, 2))
    places[20:] += 1e6
    assert panel_limits(places, diverged=True).x[1] < 2
    assert panel_limits(places).outside == 0


@pytest.mark.parametrize("count", [1, 2, 7, 200, 1001])
@pytest.mark.parametrize("square", [True, False])
def test_limits_that_follow_contain_all_points_and_change_smoothly(
    count, square, generator
):
    reach = np.where(np.arange(count) < count // 2, 0.01, 30.0) * (
        1 + (np.arange(count) == count // 3)
    )
    places = reach[:, None, None] * generator.uniform(
        -1, 1, (count, 5, 2)
    ) + generator.standard_normal(2)
    result = following_limits(places, np.arange(count), count, square)
    low, high = np.moveaxis(result.views, -1, 0)
    assert (low[:, None] < places).all()
    assert (places < high[:, None]).all()
    size = high - low
    assert not square or np.allclose(size[:, 0], size[:, 1])
    spread = np.ptp(places, axis=1).max(axis=1)
    assert (
        size[0].max() < 2.5 * spread[0] or count < 200
    )  # the first frames fill their panel
    if (
        count >= 200
    ):  # from one frame to the next by less than a factor of 30 / 0.01 shared by all frames around it
        assert np.abs(np.diff(np.log(size), axis=0)).max() < 1.5 * np.log(6000) / (
            0.025 * count
        )


def test_limits_that_follow_are_interpolated_between_known_frames():
    places = np.linspace(1, 2, 11)[:, None, None] * np.array([[[-1.0, -1], [1, 1]]])
    result = following_limits(places, np.arange(0, 101, 10), 101)
    assert result.views.shape == (101, 2, 2)
    assert (np.diff(result.views[:, 0, 1]) > -1e-9).all()
    assert_allclose([result.x, result.y], result.views[-1])
    assert_allclose(
        result.widened(0.5).at(np.array([3]))[0], 2 * result.views[3], atol=1e-9
    )
    assert following_limits(
        np.full((3, 2, 2), np.nan), np.arange(3), 3
    ).x == pytest.approx((-1.16, 1.16))


def test_limits_of_nothing_of_one_point_and_of_huge_numbers():
    assert panel_limits(np.full((2, 3, 2), np.nan))[:2] == ((-1, 1), (-1, 1))
    assert panel_limits(np.full((2, 1, 2), 3.0)).x == (0, 6)
    assert np.isfinite(panel_limits(np.array([[[-1e300, 0], [1e300, 0]]])).x).all()
    wide = panel_limits(np.array([[[0.0, 0], [10, 1]]]), square=False)
    assert wide.y[1] < 1.2
    ticks = pixel_centres(wide.at(np.arange(1)), 4)[0]
    assert ticks.shape == (16, 2)
    assert (np.diff(ticks[:4, 0]) > 0).all()
    assert ticks[0, 1] < ticks[-1, 1]  # the lowest row first


def test_limits_that_follow_partly_show_growth():
    places = np.geomspace(1, 16, 101)[:, None, None] * np.array([[-1.0, -1], [1, 1]])
    halves = []
    for follow in (1.0, 0.5):
        views = following_limits(places, np.arange(101), 101, follow=follow).views
        assert (np.abs(places) <= views[:, None, :, 1]).all()
        halves.append(views[:, 0, 1])
    assert halves[0][-1] == pytest.approx(halves[1][-1])
    assert halves[0][10] / halves[1][10] == pytest.approx(16**-0.45, rel=0.1)
