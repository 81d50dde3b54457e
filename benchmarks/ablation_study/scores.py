"""Score each composition from the records, over functions or over images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coco_study import records
from coco_study.cells import Column, choose
from coco_study.settings import Method
from coco_study.statistics import rank, value
from coco_study.suites import INSTANCES
from numpy.typing import NDArray
from scipy.stats import rankdata

from ablation_study import bbob, images
from ablation_study.axes import Composition, compositions
from ablation_study.images import AttackRecord

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of each composition that was run completely, over `units`. Lower is better."""

    units: tuple[int, ...]
    of: dict[Composition, Array]
    ranks: dict[Composition, float]
    """Mean ranks among the compositions."""
    success: dict[Composition, float]
    """Share of images that were fooled. Empty for BBOB."""

    def mean(self, c: Composition) -> float:
        """Return the mean over units."""
        return float(self.of[c].mean())

    @property
    def median(self) -> float:
        """Median over compositions of their means."""
        return float(np.median([self.mean(c) for c in self.of])) if self.of else 0.0

    def beyond_median(self, c: Composition) -> float:
        """Return the mean minus the median over compositions."""
        return self.mean(c) - self.median


def column(
    folder: Path, methods: Sequence[Method], d: int, times: int, fs: Iterable[int], instances: Iterable[int]
) -> Column:
    """Return the records of some methods in d variables with a budget of `times` d evaluations."""
    chosen, _ = choose(records.read(folder), methods)
    return Column(suite="bbob", d=d, times=times, functions=tuple(fs), instances=tuple(instances), chosen=chosen)


def logs(of: Column, name: str) -> Array:
    """Return log10(f - fopt), at least -8, averaged over instances, for each function of a column."""
    by_function = [[place for place in of.places if place.f == f] for f in of.functions]
    return np.array([np.mean([np.log10(value(of.runs[name, p], of.budget)) for p in ps]) for ps in by_function])


def bbob_scores(folder: Path, *, fs: Sequence[int] = bbob.TEST, instances: Sequence[int] = INSTANCES) -> Scores:
    """Return the scores of the tuned compositions: log10(f - fopt), function by function."""
    chosen = bbob.chosen(folder).read()
    cells = {c.name: c for c in compositions() if c.name in chosen}
    methods = [bbob.method_of(c, chosen[name]["values"]) for name, c in cells.items()]
    found = column(folder, methods, bbob.D, bbob.TIMES, fs, instances)
    ranks = rank(found.runs, found.methods, found.places, found.budget).ranks if found.methods else {}
    return Scores(
        units=found.functions,
        of={cells[name]: logs(found, name) for name in found.methods},
        ranks={cells[name]: mean for name, mean in ranks.items()},
        success={},
    )


def attack_scores(folder: Path) -> tuple[Scores, list[AttackRecord]]:
    """Return the total losses of the tuned compositions, image by image, and all records, including that of "auto".

    If the records have several numbers of images or queries, the most frequent one is used.
    """
    found = images.read(folder)
    counted = Counter((record.queries, record.ids) for record in found)
    if not counted:
        return Scores(units=(), of={}, ranks={}, success={}), []
    (queries, ids), _ = counted.most_common(1)[0]
    chosen = images.chosen(folder, queries).read()
    keys = {name: images.key_of(said["values"], queries, ids) for name, said in chosen.items()}
    keys["auto"] = images.key_of(None, queries, ids)
    by_name = {record.name: record for record in found if record.key == keys.get(record.name)}
    cells = [c for c in compositions() if c.name in by_name]
    totals = {c: np.array(by_name[c.name].total) for c in cells}
    return Scores(
        units=ids,
        of=totals,
        ranks=_mean_ranks(totals),
        success={c: float(np.mean(by_name[c.name].success)) for c in cells},
    ), list(by_name.values())


def _mean_ranks(of: dict[Composition, Array]) -> dict[Composition, float]:
    if not of:
        return {}
    ranks = rankdata(np.array(list(of.values())), axis=0).mean(axis=1)
    return dict(zip(of, map(float, ranks), strict=True))


def versions(folder: Path) -> list[str]:
    """Return a note for each field whose records come from several versions of the source."""
    codes = {
        "BBOB": {record.code for record in records.read(folder)},
        "the attack": {record.code for record in images.read(folder)},
    }
    return [
        f"The records of {field} come from {len(of)} versions of the slgh source ({', '.join(sorted(of))})."
        for field, of in codes.items()
        if len(of) > 1
    ]
