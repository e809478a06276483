"""What a page that plays recorded runs draws at a frame, compared with the arrays of
the scenes."""

import numpy as np
import pytest

from analysis.explorer.bokeh_panels import palette_pixels, pixel_palette
from analysis.explorer.codec import encode_layer
from analysis.panels import Map, build_scene
from dynamics.trajectory.reader import open_trajectory

BUFFERS_ARE_THERE = """scrubber.painted > 0 && scrubber.stage.parts.every((part) =>
  part.kind == 'cursor' || scrubber.stage.buffers.has(`${part.lane}/${part.array}`))"""

STATE = """() => {
  const {stage} = scrubber, place = Math.floor(scrubber.place), document = Bokeh.documents[0]
  return {place, step: stage.lanes[0].steps[stage.lanes[0].frames[place]], number: stage.number,
    frames: stage.lanes.map((lane) => lane.frames[place]), playing: scrubber.playing, last: scrubber.last,
    parts: stage.parts.map((part) => {
      const {data} = document.get_model_by_id(part.source.id)
      const list = (name) => Array.from(data[name] ?? [])
      const number = data.number ? Array.from(data.number[0]) : []
      const image = data.image?.[0], pixels = image ? new Uint32Array(image.buffer, image.byteOffset, image.length) : []
      return {array: part.array, lane: part.lane, kind: part.kind, number, pixels: Array.from(pixels),
        x: list("x"), y: list("y"), x1: list("x1"), y1: list("y1")}
    })}
}"""


PIXEL = """([figure, x, y]) => {
  const view = [...Bokeh.index.all_views()].find(({model}) => model.type == "Figure" && model.name == figure)
  const {x: left, y: top} = view.canvas_view.el.getBoundingClientRect()
  return [left + view.frame.x_scale.compute(x), top + view.frame.y_scale.compute(y)]
}"""
"""Position on the page of a point of a figure, in pixels."""


def scene_of(files, name, run):
    return build_scene(open_trajectory(files / f"{name}.nc"), run)


def wait_for_frame(page, place):
    page.wait_for_function("(place) => scrubber.drawn == place", arg=place)


def seek(page, place):
    """The state of the page after a person has moved the slider to a frame."""
    slider = page.get_by_role("slider", name="Frame")
    slider.evaluate(
        "(slider, place) => { slider.value = place; slider.dispatchEvent(new"
        " InputEvent('input', {bubbles: true, composed: true})) }",
        place,
    )
    wait_for_frame(page, place)
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() =>"
        " requestAnimationFrame(done)))"
    )
    return page.evaluate(STATE)


def assert_shows(state, scenes, precision=0.0):
    """What is drawn is what the scenes say of the frame, positions to a fraction of
    their largest coordinate."""
    for part in state["parts"]:
        content, frame, name = (
            scenes[part["lane"]],
            state["frames"][part["lane"]],
            part["array"],
        )
        if part["kind"] == "cursor":
            assert part["x"] == [pytest.approx(content.clock[frame])]
            continue
        layers = [item for panel in content.panels for item in panel.layers]
        layer = next(item for item in layers if getattr(item, "array", None) == name)
        whole = layer.values(np.arange(len(content.steps)))
        values = whole[frame]
        if part["kind"] == "pixels":
            number = (
                values.ravel()
                if isinstance(layer, Map)
                else encode_layer(layer, values[None])[0]
            )
            np.testing.assert_array_equal(part["number"], number)
            pixels = palette_pixels(
                np.reshape(number, values.shape).astype(np.int64), *pixel_palette(layer)
            )
            np.testing.assert_array_equal(part["pixels"], pixels.ravel())
        else:
            result = (
                [part["x"], part["y"]]
                if part["kind"] == "points"
                else [part["x1"], part["y1"]]
            )
            atol = precision * np.nanmax(np.abs(whole))
            np.testing.assert_allclose(
                np.float32(result), values.T[-2:], rtol=1e-6, atol=atol
            )
