"""How figures look: one chart configuration for light paper, one for dark, one for files."""

from __future__ import annotations

from typing import Any

PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
FILE_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the chart library ships the first

LIGHT = {
    "ink": "#1d2530",
    "muted": "#596575",
    "rule": "#e4e6e8",
    "axis": "#aab2bc",
    "series": [
        "#2a6db3",
        "#c4581b",
        "#2c8a68",
        "#8757b8",
        "#a87f14",
        "#b23a62",
        "#21889f",
        "#6f8d22",
        "#94603f",
        "#8a94a0",
    ],
    "ramp": ["#f1f5f9", "#a9c8e4", "#4e90c8", "#1d5a9a", "#0c2f5c"],
    "cells": ["#cfe0ef", "#93bbdd", "#4e90c8", "#1d5a9a", "#0c2f5c"],
    "diverging": ["#1d5a9a", "#7fb0d8", "#c9ced4", "#e0a06f", "#b1440f"],
}
DARK = {
    "ink": "#e7eaef",
    "muted": "#a0abba",
    "rule": "#2b333f",
    "axis": "#566273",
    "series": [
        "#6fb1ea",
        "#f2975e",
        "#5fc9a0",
        "#c09aea",
        "#dfbd5f",
        "#ee84a3",
        "#6dcde0",
        "#b4cf68",
        "#d3a582",
        "#8391a2",
    ],
    "ramp": ["#1b2430", "#1f4a75", "#2f7cb8", "#7cb9e6", "#e3f1fc"],
    "cells": ["#24405c", "#27608f", "#2f7cb8", "#7cb9e6", "#e3f1fc"],
    "diverging": ["#5aa7ec", "#3f6e98", "#59626d", "#a9714c", "#f29a5f"],
}
OTHERS = "others"  # the series that gathers what has no colour of its own; drawn in the last, a grey


def config(palette: dict[str, Any], font: str) -> dict[str, Any]:
    """Chart configuration for a palette. Range `ordinal` starts with the neutral ink, for totals."""
    text = {"labelColor": palette["muted"], "titleColor": palette["muted"]}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "background": None,
        "font": font,
        "view": {"stroke": None},
        "axis": {
            **text,
            **sizes,
            "gridColor": palette["rule"],
            "domainColor": palette["axis"],
            "tickColor": palette["axis"],
            "titlePadding": 8,
            "labelOverlap": "greedy",
            "labelSeparation": 6,
        },
        "axisX": {"grid": False, "tickCount": {"expr": "max(2, floor(width / 90))"}},
        "axisY": {"domain": False, "ticks": False, "tickCount": 5, "labelPadding": 6},
        "legend": {
            "orient": "top",
            "columns": 4,  # the page sets fewer where a figure is narrow
            "labelColor": palette["ink"],
            "titleColor": palette["muted"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 170,
            "title": None,
            "symbolStrokeWidth": 3,
            "rowPadding": 2,
            "offset": 8,
        },
        "title": {"color": palette["ink"], "anchor": "start", "fontSize": 14, "fontWeight": 600},
        "text": {"color": palette["ink"], "fontSize": 12},
        "rule": {"color": palette["axis"]},
        "bar": {"color": palette["series"][0]},
        "scale": {
            "barBandPaddingInner": 0.3,
            "bandWithNestedOffsetPaddingInner": 0.25,
            "offsetBandPaddingInner": 0.15,
        },
        "line": {"color": palette["series"][0], "strokeWidth": 1.6},
        "area": {"color": palette["series"][0]},
        "style": _styles(palette),
        "range": {
            "category": palette["series"],
            "ordinal": [palette["ink"], *palette["series"]],
            "heatmap": palette["ramp"],
            "ramp": palette["cells"],
            "diverging": palette["diverging"],
        },
    }


def _styles(palette: dict[str, Any]) -> dict[str, Any]:
    """Looks of single marks, by the name that a figure gives them."""
    return {
        "reference": {
            "color": palette["muted"],
            "stroke": palette["muted"],
            "strokeDash": [4, 4],
            "strokeWidth": 1,
        },
        "middle": {"color": palette["ink"]},
        "published": {"fill": palette["ink"], "stroke": palette["ink"]},
        "published-text": {"fill": palette["ink"], "fontSize": 11},
    }


def themes() -> dict[str, dict[str, Any]]:
    """The two configurations of the page, by name."""
    return {"light": config(LIGHT, PAGE_FONT), "dark": config(DARK, PAGE_FONT)}


def file_config() -> dict[str, Any]:
    """The configuration of figures written as files: light, on white."""
    return {**config(LIGHT, FILE_FONT), "background": "#ffffff"}
