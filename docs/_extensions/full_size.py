"""Pictures in the text become links to their files, which browsers show in full
size."""

import posixpath

from docutils import nodes


def setup(app) -> dict:
    app.connect("doctree-resolved", link_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_pictures(app, doctree: nodes.document, docname: str) -> None:
    """Put a link to the file around each picture of a page."""
    for picture in list(doctree.findall(nodes.image)):
        uri = picture["uri"]
        if uri.startswith("pictures/") and not isinstance(
            picture.parent, nodes.reference
        ):
            file = posixpath.join("_images", app.env.images[uri][1])
            target = posixpath.relpath(file, posixpath.dirname(docname) or ".")
            link = nodes.reference(
                "", "", refuri=target, internal=True, title="full size"
            )
            picture.replace_self(link)
            link += picture
