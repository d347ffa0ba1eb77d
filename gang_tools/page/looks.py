"""How the page looks, and the file of `simulate --html`: what a browser reads, and the charts.

Nothing here needs NiceGUI.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
LINES: Final = (
    ("#56b4e9", "solid"), ("#e69f00", "dashed"), ("#45c39b", "dotted"), ("#d89ac0", "solid"),
    ("#e8896a", "dashed"), ("#8fa6e0", "dotted"), ("#a89a2e", "solid"),
)  # fmt: skip
"""The colour and the pattern of each line, which has its name at its end too."""

INK: Final = "#808a96"
"""The colour of axes, which can be read in light and in dark mode."""


def template(name: str) -> str:
    """Return a file that the browser reads."""
    return (STATIC / name).read_text()


def line_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    x_axis: Mapping[str, object],
    *,
    top: float | None = None,
) -> dict[str, object]:
    """Return the options of a chart with a line for each name, as high as its highest or `top`."""
    label = {"formatter": "{a}", "lineHeight": 16, "width": 110, "overflow": "truncate"}
    series = [
        {
            "name": name,
            "type": "line",
            "step": "end",
            "showSymbol": len(points) == 1,
            "color": colour,
            "lineStyle": {"type": pattern},
            "endLabel": {"show": True, **label, "color": "inherit"},
            "labelLayout": {"moveOverlap": "shiftY"},
            "data": [*points],
        }
        for (name, points), (colour, pattern) in zip(lines.items(), LINES, strict=False)
    ]
    labels = {"color": INK, "hideOverlap": True}
    axis = {"axisLabel": labels, "splitLine": {"lineStyle": {"color": f"{INK}40"}}}
    return {
        "animation": False,
        "grid": {"left": 48, "right": 120, "top": 16, "bottom": 28},
        "tooltip": {"trigger": "axis"},
        "xAxis": {**axis, **x_axis},
        "yAxis": {**axis, "type": "value", "minInterval": 1, "max": top},
        "series": series,
    }
