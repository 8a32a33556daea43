"""Pictures of samples and of growth as SVG: for notebooks, web pages, files and the documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapdb.on_first_use import on_first_use

if TYPE_CHECKING:
    from snapdb.pictures.charts import degree_chart, growth_chart
    from snapdb.pictures.drawing import SampleDrawing
    from snapdb.pictures.sampled import draw_sample

__all__ = ["SampleDrawing", "degree_chart", "draw_sample", "growth_chart"]

_MODULES = {
    "SampleDrawing": ".drawing",
    "degree_chart": ".charts",
    "draw_sample": ".sampled",
    "growth_chart": ".charts",
}

__getattr__ = on_first_use(__name__, _MODULES)
