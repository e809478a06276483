from .events_figure import plot_events as plot_events
