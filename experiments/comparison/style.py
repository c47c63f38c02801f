"""Colours of charts and page, and the page's style sheet: light and dark, wide screens and phones."""

from __future__ import annotations

from typing import Final

from ...run_dir.learning_curve import GREY, STYLE

METHODS: Final = ("#1f5fa9", "#d9591d", "#2f855a", "#9b2c8f", "#a16207", "#0e7490", "#be123c", "#4d5b7c")
"""Colours of groups, the best first."""
OTHERS: Final = "#b3b8c2"
"""The colour of all other groups."""
RANKS: Final = ("#a9b4c4", "#8fb3d9", "#5b93cf", "#e0a030", "#d1480f")
"""Colours of the fifths of a search, from the worst to the best."""
TEXT: Final = "#374151"
GRID: Final = "#e5e7eb"
_DARK_METHODS: Final = ("#6ea8ff", "#ff9a5c", "#68d391", "#e293dc", "#e3b341", "#4fc3d9", "#ff7b93", "#a9b7d9")
_DARK_RANKS: Final = ("#4b5666", "#41648c", "#5b9be0", "#e3b341", "#ff8a4c")

NAMES: Final = {
    **{shade: f"--m{index}" for index, shade in enumerate(METHODS)},
    **{shade: f"--r{index}" for index, shade in enumerate(RANKS)},
    OTHERS: "--others",
    TEXT: "--text",
    GREY: "--quiet",
    GRID: "--line",
}
"""Colour in a chart to its name in the page's style, so that the page can substitute another one."""
DARK: Final = {
    **{f"--m{index}": shade for index, shade in enumerate(_DARK_METHODS)},
    **{f"--r{index}": shade for index, shade in enumerate(_DARK_RANKS)},
    "--others": "#4a5160",
    "--text": "#e6e8ec",
    "--quiet": "#9aa3b2",
    "--line": "#2c323c",
}
CHARTS: Final = {**STYLE, "text.color": TEXT, "axes.labelcolor": TEXT, "grid.color": GRID, "svg.fonttype": "none"}
"""Matplotlib's settings."""

_RULES = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem;background:var(--page);color:var(--text);
 font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.3rem;margin:2.75rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--line);overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.75rem 0 .25rem}
p{margin:.35rem 0;max-width:46rem}
.quiet,caption{color:var(--quiet);font-size:.875rem}
.few{border-left:.25rem solid var(--m6);padding-left:.75rem}
a{color:var(--link)}
code{font-size:.9em;overflow-wrap:anywhere}
.facts{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0;padding:0;list-style:none}
.facts b{display:block;font-size:1.35rem;line-height:1.2}
.facts li{color:var(--quiet);font-size:.875rem}
.facts b{color:var(--text)}
.problems{border-left:.25rem solid var(--m6);background:var(--raised);padding:.6rem 1rem;margin:1rem 0}
.problems ul{margin:.35rem 0;padding-left:1.1rem;font-size:.9rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:.5rem 0;-webkit-overflow-scrolling:touch}
.scroll:focus-visible{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .75rem .35rem 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);
 white-space:nowrap}
thead th{color:var(--quiet);font-weight:600;vertical-align:bottom}
th:first-child,td:first-child,.left{text-align:left}
tbody th{font-weight:500;white-space:normal;min-width:12rem;max-width:24rem;overflow-wrap:anywhere}
thead th .label{min-width:12.5rem;max-width:16rem;white-space:normal;overflow-wrap:anywhere}
th:first-child{position:sticky;left:0;background:var(--page)}
thead th:first-child{white-space:normal}
td small{color:var(--quiet);display:block}
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:.2em;margin-right:.45em;vertical-align:-.05em}
.label{position:relative;display:inline-block;padding-left:1.3em}
.label .swatch{position:absolute;left:0;top:.35em;margin:0}
.legend{display:flex;flex-wrap:wrap;gap:.15rem 1.25rem;font-size:.875rem;padding:0;margin:.5rem 0;list-style:none}
.chart svg{display:block;width:100%;height:auto}
.chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif!important;fill:var(--text);
 paint-order:stroke;stroke:var(--page);stroke-width:3.5px}
.narrow{display:none}
.scrolled{overflow-x:auto}
.scrolled svg{min-width:40rem}
details{margin:.75rem 0}
summary{cursor:pointer}
@media(max-width:40rem){.wide{display:none}.narrow{display:block}body{padding:1rem .9rem 3rem}
 tbody th{min-width:15rem;max-width:15rem}}
@media print{.narrow{display:none}.wide{display:block}details>*{display:block}}
"""
_LIGHT = {"--page": "#ffffff", "--raised": "#f5f6f8", "--link": "#1f5fa9"}
_DARKER = {"--page": "#14171c", "--raised": "#1e232b", "--link": "#8ab8ff"}


def stylesheet() -> str:
    """The rules of the page."""
    light = _variables({**{name: shade for shade, name in NAMES.items()}, **_LIGHT})
    dark = _variables({**DARK, **_DARKER})
    return f":root{{{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}"


def _variables(values: dict[str, str]) -> str:
    return ";".join(f"{name}:{shade}" for name, shade in values.items())
