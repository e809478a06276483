"""Thumbnails at the top of the gallery, which lead to its pictures."""

import re

PICTURE = re.compile(r"^!\[([^\]]*)\]\(pictures/([\w-]+)\.(\w+)\)$", re.MULTILINE)
MARK = "<!-- thumbnails -->"


def setup(app) -> dict:
    app.connect("source-read", add_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_thumbnails(app, docname: str, source: list[str]) -> None:
    """Replace the mark in the gallery by a card for each picture, and put a target
    before each picture."""
    if docname != "gallery":
        return
    cards = []
    for alt, name, suffix in PICTURE.findall(source[0]):
        cards += [
            f":::{{grid-item-card}} {target_of(name).replace('-', ' ')}",
            f':link: "#picture-{target_of(name)}"',
            ":link-type: url",
            f":img-top: pictures/{name}.{suffix}",
            f':img-alt: "{alt}"',
            ":class-card: thumbnail",
            ":::",
        ]
    grid = "\n".join(["::::{grid} 2 3 4 5", ":gutter: 2", "", *cards, "::::"])
    text = PICTURE.sub(
        lambda entry: f"(picture-{target_of(entry[2])})=\n\n{entry[0]}", source[0]
    )
    source[0] = text.replace(MARK, grid)


def target_of(name: str) -> str:
    return name.replace("_", "-")
