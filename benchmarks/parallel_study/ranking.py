"""Mean ranks and speed-ups in the cells, from the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from coco_study.statistics import rank

from parallel_study.methods import PEERS
from parallel_study.problems import Cell, Somewhere, target
from parallel_study.records import Key, Record

Found = Mapping[Key, Record]
Keep = Callable[[Somewhere], bool]
Entrant = tuple[str, int]
"""A method and its number of workers."""

EVALUATIONS, ROUNDS = "by_evaluations", "by_rounds"


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value at one budget, in the form that `coco_study.statistics.rank` takes."""

    budgets: tuple[int, ...]
    at: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Comparable runs of a cell: problems that all versions of slgh have run, and peers that have run them too."""

    cell: Cell
    places: tuple[Somewhere, ...]
    peers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """Evaluations per round in a cell: mean and minimum over the runs, and the mean of the target."""

    mean: float
    lowest: float
    target: float


def contests(
    found: Found, cells: Sequence[Cell], versions: Sequence[Entrant], names: Sequence[str], keep: Keep
) -> list[Contest]:
    """Return the cells that have something to compare. `names` are the methods that may take part."""
    contests = []
    for cell in cells:
        places = tuple(p for p in cell.places if keep(p) and all((*v, p, cell.budget) in found for v in versions))
        peers = tuple(
            name
            for name in PEERS
            if name in names and all((name, cell.workers, place, cell.budget) in found for place in places)
        )
        if places and (peers or versions):
            contests.append(Contest(cell=cell, places=places, peers=peers))
    return contests


def ranks(
    found: Found, contest: Contest, versions: Sequence[Entrant], peers: Sequence[str], axis: str
) -> dict[str, float]:
    """Return mean ranks, over instances and then over functions.

    Each version of slgh is ranked among the peers alone. The ranks of the peers are those beside the first version.
    """
    others = [(name, contest.cell.workers) for name in peers]
    fields = [[version, *others] for version in versions] or [others]
    tables = [_ranks(found, contest, field, axis) for field in fields]
    found_ranks = {name: tables[0][name, workers] for name, workers in others}
    return found_ranks | {version[0]: of[version] for version, of in zip(versions, tables, strict=False)}


def _ranks(found: Found, contest: Contest, entrants: Sequence[Entrant], axis: str) -> dict[Entrant, float]:
    budget = contest.cell.budget
    runs = {}
    for entrant in entrants:
        for place in contest.places:
            record = found[*entrant, place, budget]
            value = getattr(record, axis)[record.budgets.index(budget)]
            runs[entrant, place] = Value(budgets=(budget,), at=(value,))
    return rank(runs, entrants, contest.places, budget).ranks


def overall(found: Found, contests: Sequence[Contest], versions: Sequence[Entrant], axis: str) -> dict[str, float]:
    """Return the mean over cells of the ranks among the methods that take part in all of them."""
    peers = [name for name in PEERS if all(name in contest.peers for contest in contests)]
    tables = [ranks(found, contest, versions, peers, axis) for contest in contests]
    return {name: float(np.mean([table[name] for table in tables])) for name in tables[0]} if tables else {}


def loss(found: Found, contest: Contest, name: str) -> float:
    """Return the ranks by evaluations that a method loses to itself with one worker, among the peers of the cell."""
    workers = (contest.cell.workers, 1)
    many, one = (ranks(found, contest, [(name, w)], contest.peers, EVALUATIONS)[name] for w in workers)
    return many - one


def speed_up(found: Found, contest: Contest, name: str) -> SpeedUp:
    """Return the speed-up of a method in a cell."""
    cell = contest.cell
    runs = [found[name, cell.workers, place, cell.budget] for place in contest.places]
    ratios = [run.evaluations / run.rounds for run in runs]
    targets = [target(cell.budget * run.place.d, cell.workers) for run in runs]
    return SpeedUp(mean=float(np.mean(ratios)), lowest=min(ratios), target=float(np.mean(targets)))
