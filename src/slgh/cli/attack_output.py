"""The report of an attack: a table, a summary, pictures, the adversarial images, and JSON for programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape
from rich.table import Table

from slgh import __version__, checks
from slgh.attack import AttackResult, Outcome
from slgh.attack.plan import walks
from slgh.attack.robustness import NOT_ATTACKED, BudgetRow, SuccessCurves, success_curves
from slgh.backends import backend_of
from slgh.cli.attack_input import AttackInput
from slgh.cli.attack_report import (
    NORM_NAMES,
    ReportPage,
    ThreatModel,
    curve_rows,
    curve_table,
    curves_as_dict,
)
from slgh.cli.declaration import words
from slgh.cli.drawing import write_figure
from slgh.cli.errors import INTERRUPTED, exit_code, print_error, print_message
from slgh.cli.options import AttackOptions
from slgh.cli.output import IMAGE_SUFFIXES, Output, console, make_out_folder, read_run_output, show, write_json, writing
from slgh.cli.report import composition, without_chosen
from slgh.engine.termination import Status
from slgh.files import atomic_write, to_json, write_text
from slgh.paper.attack.settings import METHODS
from slgh.plotting.style import as_bytes

PICTURE, CURVES, SUCCESS = "images.png", "curves.png", "success.png"
IMAGES, RESULT, PAGE = "images.npz", "attack.json", "report.html"
"""Files in the folder of --out."""

MAX_DRAWN = 40
"""Maximum number of images in the picture."""

CUT_SHORT = "Cut short: the next iteration would exceed --max-queries."
"""Message of Status.MAX_EVALS, in terms of queries."""

OUTCOMES = {
    Outcome.MISCLASSIFIED: "misclassified",
    Outcome.THERE: "was target",
    Outcome.NONFINITE: "not finite",
    Outcome.WAITING: "not begun",
    Outcome.UNCONFIRMED: "unconfirmed",
    Outcome.NO_START: "no start",
}
"""Short forms of the outcomes for the table. The others are short."""

EXPLANATIONS = {
    "first": "queries until the first success",
    "L2² and L2": "of the nearest image that fools the model, with pixels in a range of width 1",
    "L∞": "largest change of a pixel in the nearest image that fools the model, with pixels in a range of width 1",
    "total": "final value of the minimized function",
}
"""Meaning of the headings of the table."""

COLUMNS = (
    *("label", "before", "after", "success", "queries", "first_success", "queries_to_success"),
    *("distortion", "distance", "last_distortion", "last_total"),
)
"""Fields of the result that the JSON file lists per image."""

NO_IMAGE_ATTACKED = 2
"""Exit code if no image could be attacked."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishedAttack:
    """A finished attack and its options."""

    options: AttackOptions
    attacked: AttackInput
    found: AttackResult
    params: dict[str, Any]
    seed: int
    seconds: float
    notes: tuple[str, ...]
    """Defaults that were applied."""
    max_queries: int | None
    """Limit per image. None: there is none."""

    @property
    def threat(self) -> ThreatModel:
        """Aim of the attack, and what the attacker knows."""
        wanted = self.attacked.wanted
        return ThreatModel(
            norm=self.found.norm,
            eps=self.options.eps,
            pixels=self.attacked.pixels,
            target=None if wanted is None else self.attacked.name(wanted),
            outputs=self.attacked.outputs,
        )

    @property
    def walked(self) -> bool:
        """True if "auto" walked along the boundary, and did not minimize the loss of the paper."""
        return walks(self.options.method, self.params)

    @property
    def last_budget(self) -> int:
        """Number of queries up to which the curves go: the limit, unless the attack ended before for another reason."""
        found = self.found
        planned = {Status.COMPLETED, Status.WATCHED, Status.MAX_EVALS}
        complete = found.run is not None and set(found.run.status.tolist()) <= planned
        return self.max_queries if complete and self.max_queries is not None else int(found.queries.max())


def read_attack_output(options: AttackOptions) -> Output:
    """Check all files before the attack, and create the folder of --out."""
    output = read_run_output(options, IMAGE_SUFFIXES, options.out, PICTURE)
    if options.out is not None:
        make_out_folder(options.out)
    return output


def report(finished: FinishedAttack, output: Output) -> int:
    """Print, write and draw the result. Return the exit code."""
    found = finished.found
    code = attack_code(finished)
    curves = success_curves(found, eps=finished.threat.scaled_eps)
    rows = [] if curves is None else curve_rows(curves, finished.last_budget)
    if output.prints:
        show("attack", finished.attacked.about)
        show("threat", finished.threat.line())
        show("method", method_line(finished))
        console.print(table(finished))
        console.print(explanation(finished), style="dim")
        if output.out is not None and rows:
            console.print(curve_table(rows, finished.threat).rich(console.width))
        for label, text in summary(finished):
            show(label, text)
        for note in finished.notes:
            show("note", note, style="dim")
        show("again", again(finished), unbroken=True)
    elif output.prints_line:
        figures = figures_of(found)
        print(figures["fooled"], figures["attacked"], figures["queries_to_success"], figures["distance"])
    entries = as_dict(finished, code, history=output.history)
    entries["curves"] = None if curves is None else curves_as_dict(curves, rows)
    write_json(output.json, entries)
    written = _write_folder(output.out, finished, entries)
    drawn = _draw(finished, output, curves, rows)
    if output.prints:
        for label, text in {"written": written, "drawn": drawn}.items():
            if text:
                show(label, text, unbroken=True)
    if code == NO_IMAGE_ATTACKED:
        own_model = "Check the labels, --pixels and the order of channels."
        tip = "Choose other images." if finished.attacked.is_paper_network else own_model
        print_error("no image was attacked: the model misclassifies all of them from the start.", tip)
    elif code == INTERRUPTED:
        print_message("note", "interrupted. The results are those of the iterations so far.")
    return code


def attack_code(finished: FinishedAttack) -> int:
    """Return the exit code: 0 if every image came to its planned end, fooled or not, else the most severe one."""
    run = finished.found.run
    if run is None:
        return NO_IMAGE_ATTACKED
    codes = {exit_code(Status(status)) for status in run.status}
    return next(code for code in (INTERRUPTED, 4, 3, 0) if code in codes)


def method_line(finished: FinishedAttack) -> str:
    """Return the method as its parts with all hyperparameters."""
    run = finished.found.run
    composed = "" if run is None else composition(run.method)
    return " = ".join(filter(None, (finished.options.method, composed)))


def distance_columns(finished: FinishedAttack) -> dict[str, NDArray[np.float64]]:
    """Return the columns of the table behind "first": distances that fit the norm, and the loss if it is minimized."""
    found = finished.found
    if found.norm == "linf":
        return {"L∞": found.distance}
    total = {} if finished.walked else {"total": found.last_total}
    return {"L2²": found.distortion, "L2": found.distance} | total


def table(finished: FinishedAttack) -> Table:
    """Return a table with one row per image, at most 80 columns wide."""
    found, attacked = finished.found, finished.attacked
    figures = distance_columns(finished)
    made = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in ("image", "class → seen as", "outcome", "queries", "first", *figures):
        text, wraps = heading in ("class → seen as", "outcome"), heading == "class → seen as"
        made.add_column(heading, justify="left" if text else "right", no_wrap=not wraps, min_width=6)
    for i, outcome in enumerate(found.outcome):
        label, seen = found.label[i], found.after[i]
        made.add_row(
            str(attacked.ids[i]),
            escape(attacked.name(label) if seen == label else f"{attacked.name(label)} → {attacked.name(seen)}"),
            OUTCOMES.get(outcome, outcome.value),
            f"{found.queries[i]:,}",
            f"{found.queries_to_success[i]:,}" if found.queries_to_success[i] >= 0 else "-",
            *(f"{column[i]:.3g}" if np.isfinite(column[i]) else "-" for column in figures.values()),
        )
    return made


def explanation(finished: FinishedAttack) -> str:
    """Return the meaning of the headings of the table."""
    shown = {"first", *distance_columns(finished)}
    return " ".join(f"{name}: {text}." for name, text in EXPLANATIONS.items() if name.split()[0] in shown)


def figures_of(found: AttackResult) -> dict[str, Any]:
    """Return the number of images fooled, their median number of queries and their mean distortion."""
    won = found.success
    return {
        "images": len(found.outcome),
        "correct": int((found.before == found.label).sum()),
        "attacked": sum(outcome not in NOT_ATTACKED for outcome in found.outcome),
        "fooled": int(won.sum()),
        "queries": int(found.queries.sum()),
        "queries_to_success": float(np.median(found.queries_to_success[won])) if won.any() else float("nan"),
        "distortion": float(found.distortion[won].mean()) if won.any() else float("nan"),
        "distance": float(found.distance[won].mean()) if won.any() else float("nan"),
    }


def summary(finished: FinishedAttack) -> list[tuple[str, str]]:
    """Return the labeled lines below the table."""
    found, it = finished.found, figures_of(finished.found)
    text = f"{it['fooled']} of {it['attacked']} attacked"
    if it["fooled"]:
        share = 100 * it["fooled"] / it["attacked"]
        text += f" ({share:.0f} %), a median of {it['queries_to_success']:,.0f} queries to the first success"
        text += f", {NORM_NAMES[found.norm]} {it['distance']:.3g} on average"
        text += f" (squared {it['distortion']:.3g})" if found.norm == "l2" else ""
    engine = "" if found.run is None else f"  (engine: {found.run.engine})"
    return [
        ("fooled", f"{text}."),
        ("cost", _cost(finished)),
        ("status", _status(finished)),
        ("seed", f"{finished.seed}{engine}"),
    ]


def _cost(finished: FinishedAttack) -> str:
    return f"{int(finished.found.queries.sum()):,} queries of images, {finished.seconds:.3g} s"


def _status(finished: FinishedAttack) -> str:
    """Return the message with options, without the sentence on the chosen hyperparameters."""
    found = finished.found
    text = found.message if found.run is None else without_chosen(found.message, found.run)
    return text.replace(Status.MAX_EVALS.message, CUT_SHORT)


def again(finished: FinishedAttack) -> str:
    """Return the command that repeats the attack."""
    return shlex.join(["slgh", "attack", *words(finished.options, seed=finished.seed)])


def as_dict(finished: FinishedAttack, code: int, *, history: bool) -> dict[str, Any]:
    """Return all results except the images for the JSON file."""
    found, attacked = finished.found, finished.attacked
    columns = {"id": attacked.ids} | ({} if attacked.files is None else {"file": attacked.files})
    columns |= {name: getattr(found, name) for name in COLUMNS}
    rows = [
        {name: column[i] for name, column in columns.items()} | {"outcome": outcome.name}
        for i, outcome in enumerate(found.outcome)
    ]
    entries = {
        "slgh": __version__,
        "command": "attack",
        "about": attacked.about,
        "classes": attacked.classes,
        "pixels": attacked.pixels,
        "outputs": attacked.outputs,
        "norm": found.norm,
        "eps": finished.options.eps,
        "max_queries": finished.max_queries,
        "method": finished.options.method,
        "parameters": finished.params,
        "target": attacked.wanted,
        "images": rows,
        "summary": figures_of(found),
        "message": found.message,
        "exit_code": code,
        "seed": finished.seed,
        "seconds": finished.seconds,
        "again": again(finished),
    }
    return entries | ({"history": found.history} if history else {})


def _write_folder(folder: Path | None, finished: FinishedAttack, entries: dict[str, Any]) -> str:
    """Write the images and the results. Return the files."""
    if folder is None:
        return ""
    found = finished.found
    images = np.asarray(backend_of(found.images).host(found.images))
    arrays = {"images": images, "originals": finished.attacked.images, "labels": found.label}
    arrays |= {"ids": finished.attacked.ids, "after": found.after, "success": found.success}
    with writing("--out", folder):
        with atomic_write(folder / IMAGES) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        write_text(folder / RESULT, to_json(entries))
    return f"{folder / IMAGES}, {folder / RESULT}"


def _draw(finished: FinishedAttack, output: Output, curves: SuccessCurves | None, rows: Sequence[BudgetRow]) -> str:
    """Draw the pictures, and write the page. Return their files."""
    if output.plot is None:
        return "" if output.out is None else 'nothing: matplotlib is missing. Install: pip install "slgh[plot]".'
    drawn = output.draw(lambda file: _draw_images(finished, file))
    if output.out is None or curves is None:
        return drawn
    folder = output.out
    others = replace(output, plot=folder / SUCCESS, requested=False)
    return f"{drawn}, {others.draw(lambda file: _draw_report(finished, file, folder, curves, rows))}"


def _title(finished: FinishedAttack) -> str:
    figures = figures_of(finished.found)
    method = METHODS.get(finished.options.method, finished.options.method)
    return f"{finished.attacked.title}, {method}: {figures['fooled']} of {figures['attacked']} fooled"


def _names(finished: FinishedAttack) -> dict[str, Any]:
    """Return the names of images and classes for the figures. Every class that occurs has a name."""
    found, attacked = finished.found, finished.attacked
    most = max(int(classes.max()) for classes in (found.label, found.before, found.after))
    return {"ids": attacked.ids, "classes": [attacked.name(label) for label in range(most + 1)]}


def _image_figure(finished: FinishedAttack) -> Any:
    from slgh.plotting.images import attack_images

    attacked, names = finished.attacked, _names(finished)
    drawn: dict[str, Any] = {"pixels": attacked.pixels, "title": _title(finished), "most": MAX_DRAWN}
    return attack_images(finished.found, attacked.images, **drawn, **names)


def _draw_images(finished: FinishedAttack, file: Path) -> str:
    write_figure(_image_figure(finished), file)
    return str(file)


def _draw_report(
    finished: FinishedAttack, file: Path, folder: Path, curves: SuccessCurves, rows: Sequence[BudgetRow]
) -> str:
    """Draw the success, draw distortion and margin over the queries, and write the page."""
    from slgh.plotting.images import attack_curves
    from slgh.plotting.page import Picture
    from slgh.plotting.success import success_figure

    files = [file]
    title = _title(finished)
    figure = success_figure(curves, title=title)
    write_figure(figure, file)
    pictures = [Picture(caption="Share of images that are fooled.", image=as_bytes(figure, "svg"))]
    if len(finished.found.history.get("queries", ())):
        files.append(folder / CURVES)
        write_figure(attack_curves(finished.found, title=title, **_names(finished)), folder / CURVES)
    try:
        shown = as_bytes(_image_figure(finished), "png")
    except checks.ArgumentError:  # inputs that are no pictures, which the line of the other picture explains
        pass
    else:
        caption = "Originals, adversarial images and differences."
        pictures.append(Picture(caption=caption, image=shown, media_type="image/png"))
    if find_spec("jinja2") is None:
        return f"{', '.join(map(str, files))}, and no page: jinja2 is missing"
    _page(finished, rows).write(folder / PAGE, pictures)
    return ", ".join(map(str, [*files, folder / PAGE]))


def _page(finished: FinishedAttack, rows: Sequence[BudgetRow]) -> ReportPage:
    found, attacked, figures = finished.found, finished.attacked, figures_of(finished.found)
    most = finished.max_queries
    return ReportPage(
        model=attacked.model_name,
        images=attacked.about.partition(", classified by")[0],
        shape=attacked.images.shape[1:],
        given=figures["images"],
        correct=figures["correct"],
        attacked=figures["attacked"],
        fooled=figures["fooled"],
        distances=found.distance[found.success].tolist(),
        threat=finished.threat,
        method=method_line(finished),
        budget=f"at most {int(found.queries.max()) if most is None else most:,} queries per image",
        cost=_cost(finished),
        seed=finished.seed,
        command=again(finished),
        rows=rows,
    )
