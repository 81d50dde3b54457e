"""Write the Markdown page from the records alone: the same records give the same page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from coco_study.cells import Chosen, Column, columns_of
from coco_study.settings import Cell
from coco_study.statistics import area, median, rank
from coco_study.suites import FRESH_INSTANCES, INSTANCES, PRECISION, TRAINING, is_multimodal, plain

SLGH = "slgh"

READING, FIRST = "## How to read it", "Mean rank, test functions"
"""The text between these two headings is written by hand, and kept."""


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


HEAD = f"""# COCO benchmark results

`python benchmarks/coco.py table` writes this page from the records in `benchmarks/coco_records`. All methods have the
same budgets and start from the same points, uniform in [-4, 4]^d. Their settings, with the reasons, are in
`benchmarks/coco_study/settings.toml`.

The constants of slgh were chosen on the *training* functions, f{", f".join(map(str, TRAINING))}, instances 1 to 5. The
first tables are over the *test* functions, which are all others, on instances {", ".join(map(str, INSTANCES))}.
With 10,000 d, one of these instances was run. A table on instances {_listed(FRESH_INSTANCES)} follows, on which no
method was run before slgh was complete, and tables over the training functions, if they were run. A function of
bbob-noisy is a training function if the function under its noise is one. The quality on bbob-noisy is the best
noise-free f of all evaluated points, as in COCO.

A **rank** is a method's place by f - fopt at the end of the budget. 1 is best, values below {PRECISION:.0e} tie, and
ties share the mean of their places. Ranks are averaged over a function's instances, then over functions. **CD** is
Nemenyi's critical difference at 5 %, with N = the number of functions, since instances of one function are not
independent. The row below it is CD if they were. The best method is bold, and ° marks those within CD of it.

The **area** is the area under the ECDF of targets: the mean over problems and over COCO's 51 targets, fopt + 10^2 to
fopt + 10^-8, of 1 - log(n) / log(budget), where n is the number of evaluations until the target was reached, and 0 if
it was not.
"""

GROUPS = {
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}
"""BBOB's groups of functions."""

Pick = Callable[[int], bool]
"""Predicate that selects the functions of a table."""


def page(cells: Sequence[Cell], chosen: Chosen, notes: Iterable[str], figures: Mapping[str, str], old: str = "") -> str:
    """Return the page. The text of `old` under "How to read it" is kept."""
    test = [column for column in columns_of(cells, chosen, training=False) if column.methods]
    fresh = columns_of(cells, chosen, training=False, instances=FRESH_INSTANCES)
    fresh = [column for column in fresh if SLGH in column.methods]
    training = [column for column in columns_of(cells, chosen, training=True) if column.methods]
    everything = [column for column in columns_of(cells, chosen, training=None) if column.methods]
    noisy = [column for column in everything if column.suite == "bbob-noisy"]
    _, found, after = old.partition(READING)
    words = after.partition(f"\n## {FIRST}")[0]
    parts = [
        HEAD,
        *(f"![{shows}]({name})\n" for name, shows in figures.items()),
        *([f"{READING}{words}"] if found else []),
        *section(FIRST, test, rank_rows(test, lambda f: True)),
        *section("Mean rank, multimodal test functions (f15 to f24)", test, rank_rows(test, is_multimodal)),
        *section("Mean rank, the other test functions", test, rank_rows(test, lambda f: not is_multimodal(f))),
        *section("Place of slgh by group of functions, by mean rank", test, place_rows(test)),
        *section("Test functions where slgh is better and worse, by the median f - fopt", test, duel_rows(test)),
        *section("Area under the ECDF of targets, test functions", test, area_rows(test)),
        *section(
            f"Mean rank, test functions, instances {_listed(FRESH_INSTANCES)}", fresh, rank_rows(fresh, lambda f: True)
        ),
        *section("Mean rank, training functions", training, rank_rows(training, lambda f: True)),
        *section("Mean rank, all 30 functions of bbob-noisy", noisy, rank_rows(noisy, lambda f: True)),
        *(part for column in test for part in medians(column, "test")),
        *(part for column in training for part in medians(column, "training")),
        *missing([*test, *fresh, *training], chosen),
        *(f"{text}\n" for text in notes),
    ]
    return "\n".join(parts)


def section(title: str, columns: Sequence[Column], rows: list[list[str]]) -> Iterator[str]:
    """Yield a heading and a table with a line per column of the study, if there are any."""
    if columns:
        lines = zip((column.title for column in columns), *(row[1:] for row in rows), strict=True)
        yield f"## {title}\n"
        yield "\n".join(table(["", *(row[0] for row in rows)], lines)) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Format a Markdown table."""
    aligned = ["---", *["---:"] * (len(heads) - 1)]
    return [f"| {' | '.join(row)} |" for row in [heads, aligned, *rows]]


def rank_rows(columns: Sequence[Column], pick: Pick) -> list[list[str]]:
    """Return the mean rank of each method in each column, then CD and N."""
    rankings = [
        rank(column.runs, column.methods, [place for place in column.places if pick(place.f)], column.budget)
        for column in columns
    ]
    rows = []
    for name in _names(columns):
        entries = []
        for found in rankings:
            if name not in found.ranks:
                entries.append("")
            elif found.ranks[name] == found.best:
                entries.append(f"**{found.ranks[name]:.2f}**")
            else:
                entries.append(f"{found.ranks[name]:.2f}{'°' if found.ties(name) else ''}")
        rows.append([name, *entries])
    rows.append(["CD", *(f"{found.critical_difference:.2f}" for found in rankings)])
    rows.append(["CD, N = problems", *(f"{found.if_independent:.2f}" for found in rankings)])
    rows.append(["functions", *(str(found.functions) for found in rankings)])
    return rows


def place_rows(columns: Sequence[Column]) -> list[list[str]]:
    """Return the place of slgh by mean rank in each of BBOB's groups of functions, and the method that is first."""
    return [[name, *(_place(column, group) for column in columns)] for name, group in GROUPS.items()]


def _place(column: Column, group: range) -> str:
    places = [place for place in column.places if plain(place.f) in group]
    if SLGH not in column.methods or not places:
        return ""
    ranks = rank(column.runs, column.methods, places, column.budget).ranks
    place = 1 + sum(found < ranks[SLGH] for found in ranks.values())
    return "1" if place == 1 else f"{place} ({min(ranks, key=ranks.__getitem__)})"


def duel_rows(columns: Sequence[Column]) -> list[list[str]]:
    """Count the functions where slgh is better, and worse, than each peer."""
    peers = [name for name in _names(columns) if name != SLGH]
    return [[name, *(_duel(column, name) for column in columns)] for name in peers]


def _duel(column: Column, peer: str) -> str:
    if not {SLGH, peer} <= set(column.methods):
        return ""
    better = worse = 0
    for f in column.functions:
        places = [place for place in column.places if place.f == f]
        value, peer_value = (median(column.runs, name, places, column.budget) for name in (SLGH, peer))
        better, worse = better + (value < peer_value), worse + (peer_value < value)
    return f"{better}, {worse}"


def area_rows(columns: Sequence[Column]) -> list[list[str]]:
    """Return the mean area of each method in each column."""
    areas = [
        {
            name: float(np.mean([area(column.runs[name, place], column.budget) for place in column.places]))
            for name in column.methods
        }
        for column in columns
    ]
    return [[name, *(_marked(of, name, max, "{:.3f}") for of in areas)] for name in _names(columns)]


def medians(column: Column, which: str) -> Iterator[str]:
    """Yield a table with the median f - fopt of each method on each function."""
    yield f"## Median f - fopt, {column.title}, {which} functions\n"
    rows = []
    for f in column.functions:
        places = [place for place in column.places if place.f == f]
        of = {name: median(column.runs, name, places, column.budget) for name in column.methods}
        rows.append([f"f{f}", *(_marked(of, name, min, "{:.1e}") for name in column.methods)])
    yield "\n".join(table(["", *column.methods], rows)) + "\n"


def missing(columns: Iterable[Column], chosen: Chosen) -> Iterator[str]:
    """Yield a note on each method that has not been run on all problems of a column. It is not compared there."""
    counted: dict[tuple[str, str], tuple[int, int]] = {}
    for column in columns:
        for name in chosen:
            count = column.count(name)
            if 0 < count < len(column.places):
                had, all_of = counted.get((name, column.title), (0, 0))
                counted[name, column.title] = had + count, all_of + len(column.places)
    for (name, title), (count, all_of) in counted.items():
        yield f"Left out because incomplete: {name} at {title} ({count} of {all_of} problems).\n"


def _names(columns: Sequence[Column]) -> list[str]:
    """Return the methods of all columns, in order."""
    return [name for name in columns[0].chosen if any(name in column.methods for column in columns)] if columns else []


def _marked(of: dict[str, float], name: str, best: Callable[..., float], form: str) -> str:
    if name not in of:
        return ""
    text = form.format(of[name]) if of[name] > PRECISION or best is max else f"≤ {PRECISION:.0e}"
    return f"**{text}**" if of[name] == best(of.values()) else text
