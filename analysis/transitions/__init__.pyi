from .change_points import PlateauEscape as PlateauEscape
from .change_points import SeriesEvent as SeriesEvent
from .change_points import detect_events as detect_events
from .change_points import first_plateau_escape as first_plateau_escape
from .detection import DEFAULT_DETECTION as DEFAULT_DETECTION
from .detection import DetectionConfig as DetectionConfig
