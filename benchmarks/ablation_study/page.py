"""Write the Markdown page from the records alone: the contribution of each part, in words and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from coco_study.cells import Column
from coco_study.table import table

from ablation_study import bbob, images
from ablation_study.axes import AUTO_COMPOSITION, AXES, UPDATES, Composition, compositions, why_not
from ablation_study.effects import Effect, Effects, effects
from ablation_study.images import AttackRecord
from ablation_study.picture import ROWS
from ablation_study.scores import Scores, column, logs, versions

HEAD = """# Ablation: oracle x schedule x update

`python benchmarks/ablation.py table` writes this page from the records in `{folder}`. The docstring of
`benchmarks/ablation.py` describes how parts are built, tuned and compared.

![Heat map: oracles and schedules in rows, updates in columns.]({picture})
"""

MENTIONED_INTERACTIONS = 5
"""Number of interactions that the text mentions."""


def page(
    folder: Path,
    shown: str,
    picture: str,
    bbob_scores: Scores,
    attack: tuple[Scores, list[AttackRecord]],
    instances: Sequence[int],
) -> str:
    """Return the page, with the fields that have records."""
    attack_scores, attack_records = attack
    parts = [HEAD.format(folder=shown, picture=picture)]
    if len(bbob_scores.of) > 1:
        title = f"BBOB in {bbob.D} variables, {bbob.TIMES} d evaluations"
        unit = "decades of f - fopt"
        parts += field_parts(title, unit, bbob_scores, "{:+.2f}", bbob.chosen(folder).read())
    if len(attack_scores.of) > 1:
        queries, n = attack_records[0].queries, len(attack_scores.units)
        title = f"Attack on MNIST, {n} images, {queries:,} queries"
        chosen = images.chosen(folder, queries).read()
        parts += field_parts(title, "total loss", attack_scores, "{:+.1f}", chosen)
        parts += [auto_attack(attack_scores, each) for each in attack_records if each.name == "auto"]
    parts += auto_parts(folder, bbob_scores.units, instances)
    parts += left_out()
    parts += [f"{text}\n" for text in versions(folder)]
    return "\n".join(parts)


def field_parts(title: str, unit: str, scores: Scores, form: str, chosen: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text and the tables of a field."""
    found = effects(scores.of)
    yield f"## {title}\n"
    yield words(unit, scores, found, form) + "\n"
    yield cost(scores, chosen) + "\n"
    yield f"### Effect of each part, {unit}\n"
    for axis in found.axes:
        rows = [[name(effect), figure(effect, form), str(effect.cells)] for effect in found.levels[axis]]
        yield "\n".join(table([axis, "effect ± standard error", "compositions"], rows)) + "\n"
    yield f"### Interactions of two parts, {unit}\n"
    clear = [effect for effect in found.together if effect.clear][: 2 * MENTIONED_INTERACTIONS]
    rows = [[name(effect), figure(effect, form), str(effect.cells)] for effect in clear]
    yield "\n".join(table(["parts", "effect ± standard error", "compositions"], rows)) + "\n"
    yield f"### All compositions: {unit} relative to the median, and mean rank of {len(scores.of)}\n"
    yield "\n".join(table(["", *UPDATES], all_rows(scores, form))) + "\n"


def words(unit: str, scores: Scores, found: Effects, form: str) -> str:
    """Summarize the effects."""
    first, second, third = found.axes
    order = sorted(scores.of, key=scores.mean)
    said = [
        f"The {first} contributes most: its levels span {found.span(first):.2g} {unit}, from "
        f"{ends(found, first, form)}. The {second} spans {found.span(second):.2g}, from {ends(found, second, form)}, "
        f"and the {third} {found.span(third):.2g}, from {ends(found, third, form)}.",
        f"The additive model explains {found.explained:.0%} of the variance between {len(scores.of)} compositions. "
        "The share drops by "
        + ", ".join(f"{found.without[axis]:.0%} without the {axis}" for axis in found.axes)
        + ". Interactions add "
        + ", ".join(f"{a} x {b} {share:.0%}" for (a, b), share in sorted(found.added.items(), key=lambda s: -s[1]))
        + ".",
    ]
    clear = [effect for effect in found.together if effect.clear][:MENTIONED_INTERACTIONS]
    if clear:
        said.append(
            "The strongest are " + ", ".join(f"{name(effect)} {figure(effect, form)}" for effect in clear) + "."
        )
    best = ", ".join(f"{c.name} ({form.format(scores.beyond_median(c))})" for c in order[:3])
    said.append(f"The best compositions are {best}.")
    if AUTO_COMPOSITION in scores.of:
        place, by = order.index(AUTO_COMPOSITION) + 1, form.format(scores.beyond_median(AUTO_COMPOSITION))
        mean_rank = scores.ranks[AUTO_COMPOSITION]
        said.append(
            f"The composition of auto, {AUTO_COMPOSITION.name}, is number {place} of {len(order)} "
            f"({by}, mean rank {mean_rank:.1f})."
        )
    return " ".join(said)


def ends(found: Effects, axis: str, form: str) -> str:
    """Describe the best and the worst level of an axis."""
    best, worst = found.levels[axis][0], found.levels[axis][-1]
    return f"{name(best)} ({figure(best, form)}) to {name(worst)} ({figure(worst, form)})"


def name(effect: Effect) -> str:
    """Return the levels of an effect."""
    return " x ".join(effect.levels)


def figure(effect: Effect, form: str) -> str:
    """Format the mean and the standard error."""
    return f"{form.format(effect.mean)} ± {form.format(effect.error).lstrip('+')}"


def cost(scores: Scores, chosen: Mapping[str, Any]) -> str:
    """Describe the cost of tuning, and how often the tuned value is at an end of the grid."""
    cells = {c.name: chosen[c.name] for c in scores.of if c.name in chosen}
    runs = sum(said["runs"] for said in cells.values())
    by_update = {
        u: np.mean([cells[c.name]["runs"] for c in scores.of if c.update == u and c.name in cells] or [0])
        for u in UPDATES
    }
    edges = [edge for said in cells.values() for edge in said["edges"]]
    at_ends = ", ".join(f"{each} {edges.count(each)}" for each in dict.fromkeys(sorted(edges))) or "none"
    mean = ", ".join(f"{u} {n:.0f}" for u, n in by_update.items() if n)
    return f"Tuning took {runs:,} runs (mean per composition: {mean}). Tuned values at an end of the grid: {at_ends}."


def all_rows(scores: Scores, form: str) -> list[list[str]]:
    """Return a row for each oracle and schedule."""

    def entry(c: Composition) -> str:
        if c not in scores.of:
            return "–" if why_not(c) else ""
        fooled = f"{scores.success[c]:.0%} " if scores.success else ""
        return f"{fooled}{form.format(scores.beyond_median(c))} ({scores.ranks[c]:.0f})"

    return [[f"{o}, {s}", *(entry(Composition(oracle=o, schedule=s, update=u)) for u in UPDATES)] for o, s in ROWS]


def auto_attack(scores: Scores, auto: AttackRecord) -> str:
    """Compare the attack's own "auto" with the compositions."""
    mean = float(np.mean(auto.total))
    better = sum(scores.mean(c) < mean for c in scores.of)
    return (
        f"The attack's own auto, untuned, fools {np.mean(auto.success):.0%} with a mean total loss of {mean:.2f}. "
        f"{better} of {len(scores.of)} tuned compositions have a lower loss.\n"
    )


def auto_parts(folder: Path, fs: Sequence[int], instances: Sequence[int]) -> Iterator[str]:
    """Yield the section on the variants of "auto"."""
    columns = [column(folder, bbob.variants(), d, times, fs, instances) for d, times in bbob.AUTO_CELLS]
    columns = [each for each in columns if "auto" in each.methods and len(each.methods) > 1]
    if not columns:
        return
    yield "## auto without one of its phases, BBOB\n"
    yield (
        "Each entry is the difference from auto in decades of f - fopt, ± its standard error over functions. In "
        "parentheses: the number of functions on which the variant is better, and worse, than auto by more than a "
        "tenth of a decade. A phase that takes no part with a budget makes no difference there. `one local search` and "
        "`local searches` have no other phases.\n"
    )
    compared = [auto_changes(each) for each in columns]
    rows = [[name, *(entry(each.get(bbob.name_of(name))) for each in compared)] for name in list(bbob.VARIANTS)[1:]]
    yield "\n".join(table(["", *(each.title for each in columns)], rows)) + "\n"


def auto_changes(of: Column) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the change of log10(f - fopt) that each variant makes, function by function."""
    return {name: logs(of, name) - logs(of, "auto") for name in of.methods if name != "auto"}


def entry(change: np.ndarray[Any, np.dtype[np.float64]] | None) -> str:
    """Describe a change by its mean, its standard error, and the numbers of better and worse functions."""
    if change is None:
        return ""
    error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.inf
    return f"{change.mean():+.2f} ± {error:.2f} ({int((change < -0.1).sum())}, {int((change > 0.1).sum())})"


def left_out() -> Iterator[str]:
    """List the compositions that make no sense, with the reasons."""
    reasons: dict[str, list[Composition]] = {}
    for o, s, u in product(*AXES.values()):
        c = Composition(oracle=o, schedule=s, update=u)
        if (why := why_not(c)) is not None:
            reasons.setdefault(why, []).append(c)
    yield f"## Compositions that are left out\n\n{len(compositions())} compositions make sense. These do not:\n"
    yield "\n".join(f"- {describe(of)}: {why}." for why, of in reasons.items()) + "\n"


def describe(of: Sequence[Composition]) -> str:
    """Describe compositions by their levels, axis by axis."""

    def listed(levels: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(levels))

    updates = {c.update for c in of}
    tail = "" if updates == set(UPDATES) else f" with {listed(c.update for c in of)}"
    return f"{listed(c.oracle for c in of)} with {listed(c.schedule for c in of)}{tail} ({len(of)})"
