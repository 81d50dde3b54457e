"""The report of an attack: a table, a summary, pictures, the adversarial images, and JSON for programs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from slgh import __version__
from slgh.attack import AttackResult, Outcome
from slgh.backends import backend_of
from slgh.cli.attack_input import AttackInput
from slgh.cli.declaration import words
from slgh.cli.drawing import write_figure
from slgh.cli.errors import INTERRUPTED, exit_code, print_error, print_message
from slgh.cli.options import AttackOptions
from slgh.cli.output import IMAGE_SUFFIXES, Output, console, make_out_folder, read_run_output, show, write_json, writing
from slgh.cli.report import composition, without_chosen
from slgh.engine.termination import Status
from slgh.files import atomic_write, to_json, write_text
from slgh.paper.attack.settings import METHODS

PICTURE, CURVES, IMAGES, RESULT = "images.png", "curves.png", "images.npz", "attack.json"
"""Files in the folder of --out."""

MAX_DRAWN = 40
"""Maximum number of images in the picture."""

CUT_SHORT = "Cut short: the next iteration would exceed --max-queries."
"""Message of Status.MAX_EVALS, in terms of queries."""

EXPLANATION = (
    "first: queries until the first success. L2² and L2: of the least distorted image that fools the model, with "
    "pixels in a range of width 1. total: final value of the minimized function."
)

COLUMNS = (
    *("label", "before", "after", "success", "queries", "first_success", "queries_to_success", "distortion", "l2"),
    *("last_distortion", "last_total"),
)
"""Fields of the result that the JSON file lists per image."""

NOT_ATTACKED = 2
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


def read_attack_output(options: AttackOptions) -> Output:
    """Check all files before the attack, and create the folder of --out."""
    output = read_run_output(options, IMAGE_SUFFIXES, options.out, PICTURE)
    if options.out is not None:
        make_out_folder(options.out)
    return output


def report(finished: FinishedAttack, output: Output) -> int:
    """Print, write and draw the result. Return the exit code."""
    found = finished.found
    code = attack_code(found)
    if output.prints:
        show("attack", finished.attacked.about)
        show("method", method_line(finished))
        console.print(table(finished))
        console.print(EXPLANATION, style="dim")
        for label, text in summary(finished):
            show(label, text)
        for note in finished.notes:
            show("note", note, style="dim")
        show("again", again(finished), unbroken=True)
    elif output.prints_line:
        figures = figures_of(found)
        print(figures["fooled"], figures["attacked"], figures["queries_to_success"], figures["l2"])
    entries = as_dict(finished, code, history=output.history)
    write_json(output.json, entries)
    written = _write_folder(output.out, finished, entries)
    drawn = _draw(finished, output)
    if output.prints:
        for label, text in {"written": written, "drawn": drawn}.items():
            if text:
                show(label, text, unbroken=True)
    if code == NOT_ATTACKED:
        own_model = "Check the labels, --pixels and the order of channels."
        tip = "Choose other images." if finished.attacked.is_paper_network else own_model
        print_error("no image was attacked: the model misclassifies all of them from the start.", tip)
    elif code == INTERRUPTED:
        print_message("note", "interrupted. The results are those of the iterations so far.")
    return code


def attack_code(found: AttackResult) -> int:
    """Return the exit code: 0 if every image came to its planned end, fooled or not, else the most severe one."""
    if not found.runs:
        return NOT_ATTACKED
    codes = {exit_code(Status(status)) for run in found.runs for status in run.status}
    return next(code for code in (INTERRUPTED, 4, 3, 0) if code in codes)


def method_line(finished: FinishedAttack) -> str:
    """Return the method as its parts with all hyperparameters."""
    wanted = finished.attacked.wanted
    aim = "" if wanted is None else f"; target: {finished.attacked.name(wanted)}"
    composed = ", then ".join(composition(run.method) for run in finished.found.runs)
    return " = ".join(filter(None, (finished.options.method, composed))) + aim


def table(finished: FinishedAttack) -> Table:
    """Return a table with one row per image, at most 80 columns wide."""
    found, attacked = finished.found, finished.attacked
    made = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in ("image", "label", "seen as", "outcome", "queries", "first", "L2²", "L2", "total"):
        text, wraps = heading in ("label", "seen as", "outcome"), heading in ("seen as", "outcome")
        made.add_column(heading, justify="left" if text else "right", no_wrap=not wraps, min_width=7 if wraps else 6)
    for i, outcome in enumerate(found.outcome):
        seen = attacked.name(found.before[i])
        made.add_row(
            str(attacked.ids[i]),
            attacked.name(found.label[i]),
            f"{seen} → {attacked.name(found.after[i])}" if outcome is Outcome.SUCCESS else seen,
            outcome.value,
            f"{found.queries[i]:,}",
            f"{found.queries_to_success[i]:,}" if found.queries_to_success[i] >= 0 else "-",
            *(f"{c[i]:.3g}" if np.isfinite(c[i]) else "-" for c in (found.distortion, found.l2, found.last_total)),
        )
    return made


def figures_of(found: AttackResult) -> dict[str, Any]:
    """Return the number of images fooled, their median number of queries and their mean distortion."""
    won = found.success
    attacked = sum(outcome is not Outcome.MISCLASSIFIED for outcome in found.outcome)
    return {
        "images": len(found.outcome),
        "attacked": attacked,
        "fooled": int(won.sum()),
        "queries": int(found.queries.sum()),
        "queries_to_success": float(np.median(found.queries_to_success[won])) if won.any() else float("nan"),
        "distortion": float(found.distortion[won].mean()) if won.any() else float("nan"),
        "l2": float(found.l2[won].mean()) if won.any() else float("nan"),
    }


def summary(finished: FinishedAttack) -> list[tuple[str, str]]:
    """Return the labeled lines below the table."""
    found, it = finished.found, figures_of(finished.found)
    text = f"{it['fooled']} of {it['attacked']} attacked"
    if it["fooled"]:
        share = 100 * it["fooled"] / it["attacked"]
        text += f" ({share:.0f} %), a median of {it['queries_to_success']:,.0f} queries to the first success"
        text += f", L2 {it['l2']:.3g} on average (squared {it['distortion']:.3g})"
    engine = f"  (engine: {found.runs[0].engine})" if found.runs else ""
    return [
        ("fooled", f"{text}."),
        ("cost", f"{it['queries']:,} queries of images, {finished.seconds:.3g} s"),
        ("status", _status(found)),
        ("seed", f"{finished.seed}{engine}"),
    ]


def _status(found: AttackResult) -> str:
    """Return the message with options, without the sentence on the chosen hyperparameters."""
    text = found.message
    for run in found.runs:
        text = without_chosen(text, run)
    return text.replace(Status.MAX_EVALS.message, CUT_SHORT)


def again(finished: FinishedAttack) -> str:
    """Return the command that repeats the attack."""
    return shlex.join(["slgh", "attack", *words(finished.options, seed=finished.seed)])


def as_dict(finished: FinishedAttack, code: int, *, history: bool) -> dict[str, Any]:
    """Return all results except the images for the JSON file."""
    found, attacked = finished.found, finished.attacked
    columns = {"id": attacked.ids} | {name: getattr(found, name) for name in COLUMNS}
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


def _draw(finished: FinishedAttack, output: Output) -> str:
    """Draw the pictures. Return their files."""
    if output.plot is None:
        return "" if output.out is None else 'nothing: matplotlib is missing. Install: pip install "slgh[plot]".'
    return output.draw(lambda file: _draw_figures(finished, file, output.out))


def _draw_figures(finished: FinishedAttack, file: Path, folder: Path | None) -> str:
    from slgh.plotting.images import attack_curves, attack_images

    found, attacked = finished.found, finished.attacked
    figures = figures_of(found)
    method = METHODS.get(finished.options.method, finished.options.method)
    title = f"{attacked.title}, {method}: {figures['fooled']} of {figures['attacked']} fooled"
    options: dict[str, Any] = {"ids": attacked.ids, "classes": attacked.classes}
    pictures = attack_images(found, attacked.images, pixels=attacked.pixels, title=title, most=MAX_DRAWN, **options)
    write_figure(pictures, file)
    if folder is None or not len(found.history.get("queries", ())):
        return str(file)
    write_figure(attack_curves(found, title=title, **options), folder / CURVES)
    return f"{file}, {folder / CURVES}"
