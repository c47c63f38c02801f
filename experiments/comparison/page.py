"""A report as one web page: no scripts, nothing loaded from elsewhere, in light and dark, and on phones."""

from __future__ import annotations

import datetime
import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ...core.checks import counted
from ...run_dir.files import make_folders, why_unwritable, write_atomically
from ...run_dir.learning_curve import CURVE
from ...run_dir.statistics import ENOUGH
from ...version import __version__
from ..errors import ExperimentError
from . import charts, html, parallel
from .charts import Chart
from .groups import short_names
from .html import Html, Row, number_or_dash
from .run_digest import RunDigest
from .run_folders import common_folder, short_path
from .study import SHOWN, Study, across
from .style import stylesheet
from .tables import age

_OPEN: Final = 12
"""Table rows that are shown initially; the reader opens the rest."""
_FEW: Final = 10
"""Problems that are shown initially."""
_NOTHING_ELSE: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy: the page loads nothing, whatever a run has written into its folder."""
_METHOD: Final = """\
<h2>How these numbers are made</h2>
<p>Runs that differ only in their seed form a group; those that were not evaluated form a separate one. A run counts if
it finished, or has at least 95 % of the timesteps of the longest run in its group; of runs with the same seed, one
counts.</p>
<p>A learning curve is the mean over the runs of their mean returns within a window of about a 25th of a run, with its
95 % bootstrap interval over the runs; it ends where the first of the runs ends.</p>
<p>The interquartile mean leaves out the lowest and the highest quarter of the runs. The bounds below a number are its
95 % interval by the percentile bootstrap with 10,000 resamples, stratified by environment. The probability of
improvement is the share of pairs of runs in which the first is better; equal results count half (Agarwal et al. 2021,
arXiv:2108.13264). Intervals of few runs are too narrow (three runs have only ten different resamples): do not choose
between groups whose intervals overlap much.</p>
"""


def check_output(path: Path) -> None:
    """Refuse a page that could not be written, before any work.

    Raises:
        ExperimentError: its path is a folder, or its folder cannot be written; says why.
    """
    if path.is_dir():
        raise ExperimentError(str(path), f"is a folder; give the file to write, such as {path / 'report.html'}")
    why = why_unwritable(path.absolute().parent)
    if why:
        raise ExperimentError(str(path), f"the report cannot be written here: {why}; choose another file with -o")


def write(path: Path, studies: Sequence[Study], runs: Sequence[RunDigest]) -> list[Path]:
    """Write the page and its pictures.

    Args:
        path: the path of the page; an existing one is replaced.
        studies: one study for each environment, at least one.
        runs: all runs, including damaged ones.

    Returns:
        The pictures, written beside the page.

    Raises:
        CheckpointError, OSError: they cannot be written; no new file is left behind.
    """
    names = _file_names([study.environment for study in studies])
    drawn = [_charts(f"{path.stem}-{name}", study) for name, study in zip(names, studies, strict=True)]
    sections = [_environment(study, found) for study, found in zip(studies, drawn, strict=True)]
    body = [_head(path, studies, runs), *sections, _across(studies), _runs(path, runs), _METHOD]
    title = escape(path.stem.replace("_", " "))
    page = (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_ELSE}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<style>{stylesheet()}</style>\n</head>\n<body>\n" + "\n".join(filter(None, body)) + "</body>\n</html>\n"
    )
    pictures = {path.with_name(chart.picture): chart.png for found in drawn for chart in found.values()}
    write_all({**pictures, path: page.encode()})
    return list(pictures)


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write files into one folder, in this order; if one cannot be written, no new file is left behind.

    Raises:
        CheckpointError, OSError: as the operating system reports it.
    """
    make_folders(next(iter(files)).absolute().parent)
    new: list[Path] = []
    try:
        for file, content in files.items():
            new += [] if file.exists() else [file]
            write_atomically(file, content)
    except BaseException:
        for file in new:
            file.unlink(missing_ok=True)
        raise


def _file_names(environments: Sequence[str]) -> list[str]:
    """Names of environments in file names; those that would be the same, also without case, are numbered from 2."""
    names: list[str] = []
    for environment in environments:
        base = re.sub(r"[^A-Za-z0-9.-]+", "-", environment)
        numbered = (f"{base}-{number}" if number > 1 else base for number in itertools.count(1))
        taken = {name.casefold() for name in names}
        names.append(next(name for name in numbered if name.casefold() not in taken))
    return names


def _charts(name: str, study: Study) -> dict[str, Chart]:
    """The charts of a study; their pictures' names begin with ``name``."""
    found = {}
    if any(result.band is not None for result in study.results):
        title = f"{study.environment}: learning curves"
        found["curves"] = charts.draw_chart(f"{name}-curves.png", title, charts.curves(study), height=3.7, narrow=3.7)
    if any(result.final is not None for result in study.coloured_results):
        title, (wide, narrow) = f"{study.environment}: final returns", charts.finals_heights(study)
        draw = charts.finals(study)
        found["finals"] = charts.draw_chart(f"{name}-finals.png", title, draw, height=wide, narrow=narrow)
    if results := parallel.searched_groups(study):
        title, draw = f"{study.environment}: settings and final return", parallel.parallel(results)
        found["search"] = charts.draw_chart(f"{name}-search.png", title, draw, height=3.9)
    return found


def _head(path: Path, studies: Sequence[Study], runs: Sequence[RunDigest]) -> str:
    groups = sum(len(study.results) for study in studies)
    statuses = Counter(run.status for run in runs)
    facts = {
        "runs": len(runs),
        "groups": groups,
        "environments": len(studies),
        "timesteps": sum(run.timesteps for run in runs),
    }
    items = "".join(f"<li><b>{value:,}</b>{name}</li>" for name, value in facts.items())
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    told = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
    head = f'<h1>{escape(path.stem.replace("_", " "))}</h1>\n<p class="quiet">{now}, axonrl {__version__}: {told}</p>'
    return f'{head}\n<ul class="facts">{items}</ul>{_problems(studies, runs)}'


def _problems(studies: Sequence[Study], runs: Sequence[RunDigest]) -> str:
    """A list of runs that cannot be shown, and of runs that do not count."""
    common = common_folder([run.folder for run in runs])
    wrong = [f"<b>{run.status}</b> {escape(run.problem)}" for run in runs if run.problem]
    out = [
        f"<code>{escape(short_path(entry.run.folder, common))}</code>: {escape(entry.left_out)}"
        for study in studies
        for result in study.results
        for entry in result.group.entries
        if entry.left_out
    ]
    lists = (("Runs that could not be used", wrong), ("Left out of the statistics", out))
    return "".join(
        f'<details class="problems"{" open" * (len(items) <= _FEW)}><summary><b>{title}: {len(items)}</b></summary>'
        f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul></details>"
        for title, items in lists
        if items
    )


def _environment(study: Study, found: dict[str, Chart]) -> str:
    labels = [result.group.label for result in study.coloured_results]
    hidden = len(study.results) - len(labels)
    more = f'<p class="quiet">The best {SHOWN} groups are in colours; {hidden} others are grey.</p>' if hidden else ""
    algorithms = ", ".join(dict.fromkeys(result.group.algorithm for result in study.results))
    title = f'<h2>{escape(study.environment)}</h2><p class="quiet">{escape(algorithms)}</p>'
    pieces = [title, html.legend(labels), more]
    if "curves" in found:
        pieces += ["<h3>Learning curves</h3>", _figure(found["curves"])]
    pieces += ["<h3>Final performance</h3>", f'<p class="quiet">Final returns are those of {study.what}.</p>']
    if "finals" in found:
        pieces.append(_figure(found["finals"]))
    pieces += [_results(study), _improvement(study), _efficiency(study)]
    if "search" in found:
        about = "A line is a group; its colour says in which fifth of all groups its final return is: "
        ranks = "".join(f'<span class="swatch" style="background:var(--r{rank})"></span>' for rank in range(5))
        pieces += ["<h3>The search</h3>", f'<p class="quiet">{about} lowest {ranks} highest.</p>']
        pieces.append(_figure(found["search"]))
    return "\n".join(filter(None, [*pieces, _settings(study)]))


def _figure(chart: Chart) -> str:
    link = f'<a href="{quote(chart.picture)}">{escape(chart.picture)}</a>'
    return f'{chart.svg}<p class="quiet">As a picture: {link}</p>'


def _results(study: Study) -> str:
    heads = ("group", "runs", "interquartile mean", "mean", "best", "timesteps", "timesteps/s")
    rows = [
        Row(
            html.group_label(result.group.label, place),
            [
                _count_text(len(result.finals), len(result.group.entries)),
                html.interval(result.final),
                html.interval(result.mean),
                number_or_dash(result.best),
                f"{max(run.timesteps for run in result.group.runs):,}",
                number_or_dash(result.timesteps_per_second),
            ],
        )
        for place, result in enumerate(study.results)
    ]
    return _few(study) + _mixture_warning(study) + _fold(heads, rows, "Final performance", "groups")


def _few(study: Study) -> str:
    """A warning if groups have too few runs for their intervals."""
    few = [len(result.finals) for result in study.results if result.has_few_runs]
    if not few:
        return ""
    runs = counted(min(few), "run") if min(few) == max(few) else f"{min(few)} to {max(few)} runs"
    return (
        f'<p class="few">Intervals of {len(few)} of {len(study.results)} groups are too narrow: they have only {runs}.'
        f" Use {ENOUGH} seeds or more to compare groups.</p>"
    )


def _mixture_warning(study: Study) -> str:
    """A warning if runs of a group may differ in unrecorded settings."""
    items = [
        f"<li>{escape(result.group.label)}: {escape(', '.join(result.group.unrecorded))}</li>"
        for result in study.results
        if result.group.unrecorded and len(result.group.runs) > 1
    ]
    if not items:
        return ""
    about = "Groups that may be mixed: their runs can differ in what was not recorded."
    return f'<p class="few">{about}</p><ul>{"".join(items)}</ul>'


def _count_text(counted: int, every: int) -> str:
    return str(counted) if counted == every else f"{counted} of {every}"


def _improvement(study: Study) -> str:
    if not study.improvement:
        return ""
    labels = [result.group.label for result in study.coloured_results]
    letters = [chr(ord("A") + place) for place in range(len(labels))]
    rows = []
    for place, ours in enumerate(labels):
        cells = [html.interval(study.improvement.get((ours, theirs))) for theirs in labels]
        rows.append(Row(html.group_label(f"{letters[place]}: {ours}", place), cells))
    heads = ["probability that the row is better than", *letters]
    table = html.table(heads, rows, about="Probability of improvement")
    return f"<h3>Probability of improvement</h3>{table}"


def _efficiency(study: Study) -> str:
    values = list(study.results[0].reached)
    if not values:
        return ""
    rows = []
    for place, result in enumerate(study.results):
        cells = []
        for number, median in result.reached.values():
            runs = f"<small>{number} of {len(result.finals)} runs</small>"
            cells.append(Html(f"{html.DASH if median is None else f'{median:,.0f}'}{runs}"))
        rows.append(Row(html.group_label(result.group.label, place), cells))
    heads = ["group", *(f"return {value:g}" for value in values)]
    about = (
        "Timesteps after which the smoothed curve of a run reached a return: the median over the runs, if more than"
        " half of them did."
    )
    table = _fold(heads, rows, "Sample efficiency", "groups")
    return f'<h3>Sample efficiency</h3><p class="quiet">{about}</p>{table}'


def _settings(study: Study) -> str:
    """The settings that differ: a row for each setting, or for each group if there are many."""
    if not study.differing:
        return ""
    names = short_names(study.differing)
    labels = [html.group_label(result.group.label, place) for place, result in enumerate(study.results)]
    title = "Settings that differ"
    if len(labels) <= SHOWN:
        rows = [Row(names[key], values) for key, values in study.differing.items()]
        return f"<h3>{title}</h3>{_fold(['setting', *labels], rows, title, 'settings')}"
    rows = [Row(label, [values[place] for values in study.differing.values()]) for place, label in enumerate(labels)]
    return f"<h3>{title}</h3>{_fold(['group', *(names[key] for key in study.differing)], rows, title, 'groups')}"


def _across(studies: Sequence[Study]) -> str:
    found = across(studies)
    if not found:
        return ""
    heads = ("group", "interquartile mean", "probability that it is better than the first")
    rows = [Row(label, [html.interval(score), html.interval(better)]) for label, (score, better) in found.items()]
    about = (
        "Groups with the same settings in all environments. In each environment 0 is the lowest final return of all"
        " runs, and 1 the highest, so the numbers depend on which runs are in this report."
    )
    table = html.table(heads, rows, about="All environments together")
    return f'<h2>All environments together</h2><p class="quiet">{about}</p>{table}'


def _runs(path: Path, runs: Sequence[RunDigest]) -> str:
    heads = ("run", "environment", "algorithm", "seed", "status", "best", "final", "timesteps", "age", "curve")
    rows, common = [], common_folder([run.folder for run in runs])
    for run in runs:
        seed = html.DASH if run.seed is None else str(run.seed)
        numbers = [
            number_or_dash(run.best_return),
            number_or_dash(run.final_return),
            f"{run.timesteps:,}",
            age(run.age),
        ]
        texts = [run.environment or html.DASH, run.algorithm, seed, run.status]
        curve = _link(path, run.folder / CURVE, "picture") if (run.folder / CURVE).is_file() else html.DASH
        rows.append(Row(_link(path, run.folder, short_path(run.folder, common)), [*texts, *numbers, curve]))
    where = "" if common is None else f'<p class="quiet">Folders are in <code>{escape(str(common))}</code>.</p>'
    return f"<h2>Runs</h2>{where}{_fold(heads, rows, 'Runs', 'runs', left=(1, 2, 4))}"


def _link(path: Path, target: Path, text: str) -> Html:
    """A link relative to the page, so that page and target can be moved together."""
    try:
        address = quote(Path(os.path.relpath(target.absolute(), path.absolute().parent)).as_posix())
    except ValueError:  # on another drive of Windows
        return Html(escape(text))
    return Html(f'<a href="{address}">{escape(text)}</a>')


def _fold(heads: Sequence[str], rows: Sequence[Row], about: str, what: str, left: Sequence[int] = ()) -> str:
    """A table; of a long one only the first rows, and the whole table in a fold below."""
    if len(rows) <= _OPEN:
        return html.table(heads, rows, about=about, left=left)
    first = html.table(heads, rows[:SHOWN], about=f"{about}: the first {SHOWN} {what}", left=left)
    whole = html.table(heads, rows, about=about, left=left)
    return f"{first}<details><summary>All {len(rows)} {what}</summary>{whole}</details>"
