"""Write `benchmarks/training.md` from the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from slgh.integrations.radius import LAST_PARTS
from training_study.study import FOLDER, best_setting, methods_of, read
from training_study.tasks import TASKS

PAGE = Path(__file__).parent.parent / "training.md"

HEAD = """# Training networks

`python benchmarks/training.py` has the commands. Scores are on test data, means over the seeds. Lower is better.
"Difference" is the mean of slgh minus the peer, seed by seed, with a 95 % interval (Student's t): below 0, slgh is
better. It is bold where the interval does not contain 0.

Every method is tuned over the same number of settings on other seeds, with validation data: 12 or 16 pairs of a
learning rate and a radius, and for Adam as many learning rates. The tables have the chosen ones. The radius of slgh was
chosen among positive values: with t1 = 0, SLGH is Adam.

"""

WITH_GRADIENTS = """## With gradients

All methods are Adam with a cosine decay of the learning rate, at equal numbers of gradients. SAM takes two per step.
"Weight noise" is SLGH with a constant radius. SLGH lets t fall from t1 to {last:g} t1.

"""

WITHOUT = """## With forward passes alone

All methods are plain descent along pairs of passes, at equal numbers of passes, written by hand except ZOSLGH. MeZO
has a constant radius. SPSA has random signs and Spall's gains. ZOSLGH lets t fall from t1 to {last:g} t1.

"""


def interval(difference: np.ndarray) -> str:
    """Return the mean and the half width of its 95 % interval."""
    mean = float(difference.mean())
    half = float(stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)) if np.ptp(difference) else 0.0
    cell = f"{mean:+.4f} ± {half:.4f}"
    return f"**{cell}**" if abs(mean) > half else cell


def table(name: str) -> str:
    """Return the table of a task."""
    task, scores = TASKS[name], read(name)
    methods = methods_of(name)
    own = methods[-1]
    chosen, columns = {}, {}
    for method in methods:
        if best := best_setting(name, method, scores):
            runs = {job.seed: score for job, score in scores.items() if job[1:4] == (method, *best) and not job.tunes}
            if runs:
                chosen[method], columns[method] = best, runs
    seeds = sorted(set.intersection(*(set(runs) for runs in columns.values()))) if columns else []
    passes = "gradients" if task.gradients else "forward passes"
    text = f"### {task.title}\n\n{task.about} {task.budget:,} {passes}, {len(seeds)} seeds. Score: {task.score}.\n\n"
    text += "| method | learning rate | radius | mean score | difference |\n|---|---:|---:|---:|---:|\n"
    for method, runs in columns.items():
        rate, radius = chosen[method]
        values = np.array([runs[seed] for seed in seeds])
        difference = ""
        if method != own and own in columns and len(seeds) > 1:
            difference = interval(np.array([columns[own][seed] for seed in seeds]) - values)
        shown = "" if radius is None else f"{radius:g}"
        text += f"| {method} | {rate:g} | {shown} | {values.mean():.4f} | {difference} |\n"
    return text + "\n"


def render() -> str:
    """Return the page."""
    done = [name for name in TASKS if (FOLDER / f"{name}.jsonl").exists()]
    page = HEAD + WITH_GRADIENTS.format(last=LAST_PARTS[False])
    page += "".join(table(name) for name in done if TASKS[name].gradients)
    page += WITHOUT.format(last=LAST_PARTS[True]) + "".join(table(name) for name in done if not TASKS[name].gradients)
    memory = FOLDER / "memory.md"
    if memory.exists():
        page += memory.read_text()
    return page.rstrip() + "\n"


def write() -> None:
    """Write the page."""
    PAGE.write_text(render())
