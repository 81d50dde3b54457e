"""The Markdown page, from the records alone: what the parts contribute, in words and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from coco_study.cells import Column
from coco_study.statistics import rank
from coco_study.table import table

from ablation_study import bbob, images
from ablation_study.axes import AXES, OURS, UPDATES, Composition, compositions, why_not
from ablation_study.effects import Effect, Effects, effects
from ablation_study.images import Struck
from ablation_study.picture import ROWS
from ablation_study.scores import Scores, column, logs, versions

HEAD = """# The ablation: oracle x schedule x update

Written by `python benchmarks/ablation.py table` from the records in `{folder}`. How parts are built, tuned and
compared is said at the head of `benchmarks/ablation.py`.

![The heat map: oracles and schedules in rows, updates in columns.]({picture})
"""

SOME = 5
"""How many pairs of levels are named."""


def page(
    folder: Path,
    shown: str,
    picture: str,
    bbob_scores: Scores,
    attack: tuple[Scores, list[Struck]],
    instances: Sequence[int],
) -> str:
    """The whole page, of the fields that there are."""
    attack_scores, struck = attack
    parts = [HEAD.format(folder=shown, picture=picture)]
    if len(bbob_scores.of) > 1:
        title = f"BBOB in {bbob.D} variables, {bbob.TIMES} d evaluations"
        unit = "decades of f - fopt"
        parts += field_parts(title, unit, bbob_scores, "{:+.2f}", bbob.chosen(folder).read())
    if len(attack_scores.of) > 1:
        queries, n = struck[0].queries, len(attack_scores.units)
        title = f"The attack on MNIST, {n} images, {queries:,} queries"
        chosen = images.chosen(folder, queries).read()
        parts += field_parts(title, "total loss", attack_scores, "{:+.1f}", chosen)
        parts += [auto_attack(attack_scores, each) for each in struck if each.name == "auto"]
    parts += auto_parts(folder, bbob_scores.units, instances)
    parts += left_out()
    parts += [f"{text}\n" for text in versions(folder)]
    return "\n".join(parts)


def field_parts(title: str, unit: str, scores: Scores, form: str, chosen: Mapping[str, Any]) -> Iterator[str]:
    """A field's words and tables."""
    found = effects(scores.of)
    yield f"## {title}\n"
    yield words(unit, scores, found, form) + "\n"
    yield cost(scores, chosen) + "\n"
    yield f"### What each part contributes, {unit}\n"
    for axis in found.axes:
        rows = [[name(effect), figure(effect, form), str(effect.cells)] for effect in found.levels[axis]]
        yield "\n".join(table([axis, "effect ± standard error", "compositions"], rows)) + "\n"
    yield f"### What two parts do together beyond that, {unit}\n"
    clear = [effect for effect in found.together if effect.clear][: 2 * SOME]
    rows = [[name(effect), figure(effect, form), str(effect.cells)] for effect in clear]
    yield "\n".join(table(["parts", "effect ± standard error", "compositions"], rows)) + "\n"
    yield f"### All compositions: {unit} less the median of all, and mean rank of {len(scores.of)}\n"
    yield "\n".join(table(["", *UPDATES], all_rows(scores, form))) + "\n"


def words(unit: str, scores: Scores, found: Effects, form: str) -> str:
    """What the data say."""
    first, second, third = found.axes
    order = sorted(scores.of, key=scores.mean)
    said = [
        f"Of the three axes the {first} contributes most: its levels span {found.span(first):.2g} {unit}, from "
        f"{ends(found, first, form)}. The {second} spans {found.span(second):.2g}, from {ends(found, second, form)}; "
        f"the {third} {found.span(third):.2g}, from {ends(found, third, form)}.",
        f"Sums of the three explain {found.explained:.0%} of the variance between {len(scores.of)} compositions; "
        "without "
        + ", ".join(f"the {axis} {found.without[axis]:.0%}" for axis in found.axes)
        + " less. Interactions add "
        + ", ".join(f"{a} x {b} {share:.0%}" for (a, b), share in sorted(found.added.items(), key=lambda s: -s[1]))
        + ".",
    ]
    clear = [effect for effect in found.together if effect.clear][:SOME]
    if clear:
        said.append("The strongest: " + "; ".join(f"{name(effect)} {figure(effect, form)}" for effect in clear) + ".")
    best = ", ".join(f"{c.name} ({form.format(scores.beyond_median(c))})" for c in order[:3])
    said.append(f"The best compositions are {best}.")
    if OURS in scores.of:
        place, by = order.index(OURS) + 1, form.format(scores.beyond_median(OURS))
        said.append(
            f"That of auto, {OURS.name}, is number {place} of {len(order)} ({by}), mean rank {scores.ranks[OURS]:.1f}."
        )
    return " ".join(said)


def ends(found: Effects, axis: str, form: str) -> str:
    """An axis' best and worst level."""
    best, worst = found.levels[axis][0], found.levels[axis][-1]
    return f"{name(best)} ({figure(best, form)}) to {name(worst)} ({figure(worst, form)})"


def name(effect: Effect) -> str:
    """Its levels."""
    return " x ".join(effect.levels)


def figure(effect: Effect, form: str) -> str:
    """Its mean and standard error."""
    return f"{form.format(effect.mean)} ± {form.format(effect.error).lstrip('+')}"


def cost(scores: Scores, chosen: Mapping[str, Any]) -> str:
    """What the choice of open values took, and how often it ended at the end of a grid."""
    cells = {c.name: chosen[c.name] for c in scores.of if c.name in chosen}
    runs = sum(said["runs"] for said in cells.values())
    by_update = {
        u: np.mean([cells[c.name]["runs"] for c in scores.of if c.update == u and c.name in cells] or [0])
        for u in UPDATES
    }
    edges = [edge for said in cells.values() for edge in said["edges"]]
    at_ends = ", ".join(f"{each} {edges.count(each)}" for each in dict.fromkeys(sorted(edges))) or "none"
    mean = ", ".join(f"{u} {n:.0f}" for u, n in by_update.items() if n)
    return (
        f"Choosing what the parts leave open took {runs:,} runs (on average a composition: {mean}). "
        f"Values chosen at an end of what was tried: {at_ends}."
    )


def all_rows(scores: Scores, form: str) -> list[list[str]]:
    """A row for each oracle and schedule."""

    def entry(c: Composition) -> str:
        if c not in scores.of:
            return "–" if why_not(c) else ""
        fooled = f"{scores.success[c]:.0%} " if scores.success else ""
        return f"{fooled}{form.format(scores.beyond_median(c))} ({scores.ranks[c]:.0f})"

    return [[f"{o}, {s}", *(entry(Composition(oracle=o, schedule=s, update=u)) for u in UPDATES)] for o, s in ROWS]


def auto_attack(scores: Scores, auto: Struck) -> str:
    """The attack's own "auto" beside the compositions."""
    mean = float(np.mean(auto.total))
    better = sum(scores.mean(c) < mean for c in scores.of)
    return (
        f"The attack's own auto, untuned, fools {np.mean(auto.success):.0%} with a mean total loss of {mean:.2f}; "
        f"{better} of {len(scores.of)} compositions, tuned, have less.\n"
    )


def auto_parts(folder: Path, fs: Sequence[int], instances: Sequence[int]) -> Iterator[str]:
    """The variants of "auto" at their budgets."""
    columns = [column(folder, bbob.variants(), times, fs, instances) for times in bbob.AUTO_TIMES]
    columns = [each for each in columns if "auto" in each.methods and len(each.methods) > 1]
    if not columns:
        return
    yield f"## What auto is without its phases, BBOB in {bbob.D} variables\n"
    yield " ".join(auto_words(each) for each in columns) + "\n"
    yield (
        "Decades of f - fopt less those of auto, ± standard error over functions; on how many functions it is better "
        "and worse than auto by more than a tenth of a decade; mean rank among these.\n"
    )
    heads = [head for each in columns for head in (each.title, "better, worse", "mean rank")]
    compared = [{row[0]: row[1:] for row in auto_rows(each)} for each in columns]
    rows = [[n, *(entry for each in compared for entry in each.get(n, [""] * 3))] for n in bbob.VARIANTS]
    yield "\n".join(table(["", *heads], rows)) + "\n"


def auto_changes(of: Column) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Of each variant, function by function, what it adds to log10(f - fopt)."""
    return {name: logs(of, name) - logs(of, "auto") for name in of.methods if name != "auto"}


def auto_rows(of: Column) -> Iterator[list[str]]:
    """A row for each variant."""
    ranks = rank(of.runs, of.methods, of.places, of.budget).ranks
    yield ["auto", "0", "", f"{ranks['auto']:.2f}"]
    for name, change in auto_changes(of).items():
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.inf
        better, worse = int((change < -0.1).sum()), int((change > 0.1).sum())
        yield [name, f"{change.mean():+.2f} ± {error:.2f}", f"{better}, {worse}", f"{ranks[name]:.2f}"]


def auto_words(of: Column) -> str:
    """Which phase is missed most, and which is not."""
    changes = {name: float(change.mean()) for name, change in auto_changes(of).items()}
    cut = {name: change for name, change in changes.items() if name.startswith("auto-no-")}
    if not cut:
        return ""
    most = max(cut, key=cut.__getitem__)
    phase = most.removeprefix("auto-no-")
    said = f"At {of.times} d evaluations auto misses " + (
        f"its {phase} most ({cut[most]:+.2f} decades)" if cut[most] > 0 else "none of its phases"
    )
    idle = [name.removeprefix("auto-no-") for name, change in cut.items() if change <= 0]
    if idle:
        said += f", and is no worse without: {', '.join(idle)}"
    if "auto-polish-alone" in changes:
        said += f"; the polish alone is {changes['auto-polish-alone']:+.2f} decades from auto"
    return said + "."


def left_out() -> Iterator[str]:
    """Which compositions make no sense, and why."""
    reasons: dict[str, list[Composition]] = {}
    for o, s, u in product(*AXES.values()):
        c = Composition(oracle=o, schedule=s, update=u)
        if (why := why_not(c)) is not None:
            reasons.setdefault(why, []).append(c)
    yield f"## Left out\n\n{len(compositions())} compositions make sense. Not among them:\n"
    yield "\n".join(f"- {describe(of)}: {why}." for why, of in reasons.items()) + "\n"


def describe(of: Sequence[Composition]) -> str:
    """Which levels some compositions have, axis by axis."""

    def listed(levels: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(levels))

    updates = {c.update for c in of}
    tail = "" if updates == set(UPDATES) else f" with {listed(c.update for c in of)}"
    return f"{listed(c.oracle for c in of)} with {listed(c.schedule for c in of)}{tail} ({len(of)})"
