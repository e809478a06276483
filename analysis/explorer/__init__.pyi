from .export import export_page as export_page
from .open_files import OpenFiles as OpenFiles
from .page import fill_document as fill_document
from .server import make_server as make_server
