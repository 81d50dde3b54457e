"""The tables of the benchmark in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from attack_study.attacks import ATTACKS, GROUPS
from attack_study.problems import LINF_EPS, PHOTOGRAPHS, photograph_of
from attack_study.records import Row, Store
from attack_study.statistics import distortions, paired_ratio

READING = "## How to read it"
"""The text from this heading on is written by hand, and kept."""


def head(own: list[str], linf: bool) -> list[str]:
    """Return the names of the columns."""
    median, eps = ("median linf", ["within eps"]) if linf else ("median L2²", [])
    ratios = [f"{name} / it (95 %)" for name in own]
    return ["attack", "sees", "images", "success", *eps, median, *ratios, "queries", "first success", "s per image"]


def table_rows(
    found: dict[str, Row], own: list[str], eps: float | None, group: Callable[[int], str] | None = None
) -> list[list[str]]:
    """Return the rows of one table. All figures are for the images that every attack was run on.

    An attack of slgh that was run on more images has a second row for all of them. If `group` names the photograph that
    an image belongs to, its median distortion is the median over photographs of the median over the images of each.
    """
    common = sorted(set.intersection(*(set(row) for row in found.values())))
    rows = []
    for name, row in found.items():
        if not common:
            break
        ratios = [str(paired_ratio(found[one], row)) if name not in own else "" for one in own]
        rows.append([name, *_figures(name, row, common, eps, ratios, group)])
    for name in own:
        if len(found[name]) > len(common):
            ids = sorted(found[name])
            rows.append([f"{name}, all", *_figures(name, found[name], ids, eps, [""] * len(own), group)])
    return rows


def _figures(
    name: str, row: Row, ids: list[int], eps: float | None, ratios: list[str], group: Callable[[int], str] | None
) -> list[str]:
    far = distortions(row, ids)
    first = [row[i]["first"] for i in ids if row[i]["first"] is not None]
    medians = far
    if group is not None:
        groups = np.array([group(i) for i in ids])
        medians = np.array([np.median(far[groups == one]) for one in dict.fromkeys(groups.tolist())])
    return [
        ATTACKS[name].sees,
        str(len(ids)),
        f"{np.isfinite(far).mean():.0%}",
        *([] if eps is None else [f"{np.mean(far <= eps * (1 + 1e-5)):.0%}"]),
        _median_text(medians),
        *ratios,
        f"{np.mean([row[i]['queries'] for i in ids]):,.0f}",
        f"{np.median(first):,.0f}" if first else "-",
        f"{np.mean([row[i]['seconds'] for i in ids]):.2g}",
    ]


def _median_text(far: NDArray[np.float64]) -> str:
    median = np.median(far)
    return f"{median:.3g}" if np.isfinite(median) else "-"


def tables(store: Store, data: list[str], budgets: list[int]) -> Iterator[str]:
    """Yield the lines of all tables that have records."""
    for name in data:
        for title, attacks in GROUPS.items():
            linf = ATTACKS[attacks[0]].norm == "linf"
            eps = LINF_EPS[name] if linf else None
            for budget in budgets:
                found = {one: row for one in attacks if (row := store.read(name, one, budget))}
                if not found:
                    continue
                own = [one for one in found if ATTACKS[one].library == "slgh"]
                columns = head(own, linf)
                bound = "" if eps is None else f", eps = {eps:.3g}"
                yield f"### {name}: {title[0].lower() + title[1:]}{bound}, {budget:,} queries"
                yield ""
                yield f"| {' | '.join(columns)} |"
                yield "|---" * len(columns) + "|"
                group = photograph_of if name == "imagenet" else None
                yield from (f"| {' | '.join(row)} |" for row in table_rows(found, own, eps, group))
                yield ""
        if name == "imagenet":
            yield from photograph_table(store, budgets)


def photograph_table(store: Store, budgets: list[int]) -> Iterator[str]:
    """Yield the lines of a table with one row per photograph: the success of slgh and its median over the crops."""
    found = {budget: row for budget in budgets if (row := store.read("imagenet", "slgh", budget))}
    if not found:
        return
    yield "### imagenet: slgh, photograph by photograph, success and median L2² of its crops"
    yield ""
    yield f"| photograph | {' | '.join(f'{budget:,} queries' for budget in found)} |"
    yield "|---" * (1 + len(found)) + "|"
    for name in PHOTOGRAPHS:
        cells = []
        for row in found.values():
            far = distortions(row, [i for i in sorted(row) if photograph_of(i) == name])
            cells.append(f"{np.isfinite(far).sum()} of {far.size}, {_median_text(far)}" if far.size else "-")
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def page(store: Store, data: list[str], budgets: list[int], command: str, words: str) -> str:
    """Return the page. `words` is the text by hand, from its heading on."""
    lines = ["# slgh compared with attacks of foolbox, torchattacks and ART", "", f"Command: `{command}`."]
    lines += [", ".join(f"{name} {value}" for name, value in about.items()) + "." for about in store.devices()]
    lines += ["", *(f"- `{name}`: {made.library}, {made.about}." for name, made in ATTACKS.items()), ""]
    return "\n".join([*lines, *tables(store, data, budgets), words or f"{READING}\n"])
