"""What an attack came to: a table, a summary, pictures, the images themselves, and JSON for programs."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from slgh import __version__
from slgh.attack import AttackResult, Outcome
from slgh.backends import backend_of
from slgh.cli.attack_input import Attacked
from slgh.cli.common import STDOUT, Unwritten, console, fail, make_out_folder, refuse_unwritable, write_json
from slgh.cli.drawing import SUFFIXES, Undrawn, needs
from slgh.cli.outcome import CHOSEN, OUTPUT, exit_code, with_options, without
from slgh.cli.output import show
from slgh.files import atomic_write, to_json, write_text
from slgh.method import SLOTS, Method
from slgh.paper.attack.settings import METHODS
from slgh.result import Status

PICTURE, CURVES, IMAGES, RESULT = "images.png", "curves.png", "images.npz", "attack.json"
"""What --out holds."""

DEFAULT_PICTURE = Path("slgh-attack.png")

DRAWN = 40
"""At most so many images are drawn."""

EXPLANATION = (
    "First: the queries until the model was first fooled. L2² and L2: the least distorted image that fooled it, "
    "pixels in a range of width 1. Total: the function that is minimized, where it ended."
)

NOT_ATTACKED = 2
"""The exit code where no image could be attacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackOutput:
    """Where the outcome goes."""

    json: Path | None
    history: bool
    out: Path | None
    plot: Path | None
    """The picture's file, or None for none."""
    demanded: bool
    """Whether the picture was asked for, and not just drawn by default."""
    undrawn: str
    """Why there is no picture, where there would have been one."""
    quiet: bool

    @property
    def silent(self) -> bool:
        """Whether standard output is left to JSON, or to the one line of --quiet."""
        return self.quiet or self.json == STDOUT

    @property
    def shows_progress(self) -> bool:
        """Whether there is someone to look at a bar."""
        return not self.quiet and sys.stderr.isatty()


def read_attack_output(
    *, json: Path | None, history: bool, out: Path | None, plot: Path | None, no_plot: bool, quiet: bool
) -> AttackOutput:
    """Check where things go before the attack, and choose the default picture."""
    refuse_unwritable(json)
    if history and json is None and out is None:
        fail("--history goes with --json FILE or --out FOLDER, which it is written to.")
    if plot is not None:
        if no_plot:
            fail("Pass one of --plot and --no-plot.")
        if plot.suffix.lower() not in SUFFIXES[:-1]:
            fail(f"--plot must end in .png, .svg or .pdf, got {str(plot)!r}.")
        refuse_unwritable(plot, "--plot")
        needs("matplotlib")
    demanded, undrawn = plot is not None, ""
    if plot is None and not no_plot and (out is not None or not (quiet or json == STDOUT)):
        if find_spec("matplotlib") is None:
            undrawn = 'nothing: matplotlib is missing, pip install "slgh[plot]".'
        else:
            plot = DEFAULT_PICTURE if out is None else out / PICTURE
    if out is not None:
        make_out_folder(out)
    return AttackOutput(json=json, history=history, out=out, plot=plot, demanded=demanded, undrawn=undrawn, quiet=quiet)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ended:
    """An attack that has ended, and how it was asked for."""

    attacked: Attacked
    found: AttackResult
    method: str
    params: dict[str, Any]
    wanted: int | None
    seed: int
    seconds: float
    typed: tuple[str, ...]
    notes: tuple[str, ...]
    """What was assumed for want of a word."""


def tell_attack(ended: Ended, output: AttackOutput) -> int:
    """Print, write and draw what came out; returns the exit code."""
    found = ended.found
    code = attack_code(found)
    if not output.silent:
        show("attack", ended.attacked.about)
        show("method", method_line(ended))
        console.print(table(ended))
        console.print(EXPLANATION, style="dim")
        for label, text in summary(ended):
            show(label, text)
        for note in ended.notes:
            show("note", note, style="dim")
        show("again", again(ended), whole=True)
    elif output.json != STDOUT:
        figures = figures_of(found)
        print(figures["fooled"], figures["attacked"], figures["queries_to_success"], figures["l2"])
    entries = as_dict(ended, code, history=output.history)
    write_json(output.json, entries)
    written = _write_folder(output.out, ended, entries)
    drawn = _draw(ended, output)
    if not output.silent:
        for label, text in {"written": written, "drawn": drawn}.items():
            if text:
                show(label, text, whole=True)
    if complaint := _complaint(ended):
        print(f"slgh: {complaint}", file=sys.stderr)
    return code


def attack_code(found: AttackResult) -> int:
    """The exit code: 0 where every image came to its planned end, fooled or not; else the weightiest of the others."""
    if not found.runs:
        return NOT_ATTACKED
    codes = {exit_code(Status(status)) for run in found.runs for status in run.status}
    return next(code for code in (130, 4, 3, 0) if code in codes)


def _complaint(ended: Ended) -> str:
    """What is said on standard error."""
    found = ended.found
    if not found.runs:
        remedy = "choose others." if ended.attacked.ours else "are labels, --pixels and the order of channels right?"
        return f"nothing was attacked: all of these images are misclassified to begin with; {remedy}"
    if any(Status(status) == Status.INTERRUPTED for run in found.runs for status in run.status):
        return "interrupted. The figures are those of the iterations until then."
    return ""


def method_line(ended: Ended) -> str:
    """The method as its parts, with every hyperparameter."""
    aim = "" if ended.wanted is None else f"; wanted: {ended.attacked.name(ended.wanted)}"
    composed = ", then ".join(_composition(run.method) for run in ended.found.runs)
    return " = ".join(filter(None, (ended.method, composed))) + aim


def _composition(method: Method) -> str:
    """A method's parts."""
    parts = " x ".join(_part(getattr(method, slot)) for slot in SLOTS)
    return parts if method.floor is None else f"{parts}, floor {method.floor:.4g}"


def _part(part: Any) -> str:
    """A part with its hyperparameters."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    shown = (f"{n}={v:.6g}" if isinstance(v, float) else f"{n}={v}" for n, v in values.items() if v is not None)
    return f"{part.name}({', '.join(shown)})"


def table(ended: Ended) -> Table:
    """A row for each image, within 80 columns."""
    found, attacked = ended.found, ended.attacked
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
            *(
                f"{column[i]:.3g}" if np.isfinite(column[i]) else "-"
                for column in (found.distortion, found.l2, found.last_total)
            ),
        )
    return made


def figures_of(found: AttackResult) -> dict[str, Any]:
    """All images in a few numbers: how many were fooled, and of these the median queries and the mean distortion."""
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


def summary(ended: Ended) -> list[tuple[str, str]]:
    """The lines below the table."""
    found, it = ended.found, figures_of(ended.found)
    text = f"{it['fooled']} of {it['attacked']} attacked"
    if it["fooled"]:
        share = 100 * it["fooled"] / it["attacked"]
        text += (
            f" ({share:.0f} %), a median of {it['queries_to_success']:,.0f} queries to the first success, L2 "
            f"{it['l2']:.3g} on average (squared {it['distortion']:.3g})"
        )
    engine = f"  (engine: {found.runs[0].engine})" if found.runs else ""
    return [
        ("fooled", f"{text}."),
        ("cost", f"{it['queries']:,} queries of images, {ended.seconds:.3g} s"),
        ("status", re.sub(CHOSEN, "", found.message).replace("max_evals", "--max-queries")),
        ("seed", f"{ended.seed}{engine}"),
    ]


def again(ended: Ended) -> str:
    """The command that does it again, with the seed that was drawn."""
    kept = without(ended.typed, OUTPUT | {"--out": True})
    seeded = any(word == "--seed" or word.startswith("--seed=") for word in kept)
    return shlex.join(["slgh", "attack", *with_options(kept, [] if seeded else ["--seed", str(ended.seed)])])


def as_dict(ended: Ended, code: int, *, history: bool) -> dict[str, Any]:
    """Everything but the images, for a program."""
    found, attacked = ended.found, ended.attacked
    columns = {
        "id": attacked.ids,
        "label": found.label,
        "before": found.before,
        "after": found.after,
        "success": found.success,
        "queries": found.queries,
        "first_success": found.first_success,
        "queries_to_success": found.queries_to_success,
        "distortion": found.distortion,
        "l2": found.l2,
        "last_distortion": found.last_distortion,
        "last_total": found.last_total,
    }
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
        "method": ended.method,
        "parameters": ended.params,
        "target": ended.wanted,
        "images": rows,
        "summary": figures_of(found),
        "message": found.message,
        "exit_code": code,
        "seed": ended.seed,
        "seconds": ended.seconds,
        "again": again(ended),
    }
    return entries | ({"history": found.history} if history else {})


def adversarial(found: AttackResult) -> NDArray[Any]:
    """What was returned, on the host."""
    return np.asarray(backend_of(found.images).host(found.images))


def _write_folder(folder: Path | None, ended: Ended, entries: dict[str, Any]) -> str:
    """The images and the figures; the files."""
    if folder is None:
        return ""
    found = ended.found
    arrays = {"images": adversarial(found), "originals": ended.attacked.images, "labels": found.label}
    arrays |= {"ids": ended.attacked.ids, "after": found.after, "success": found.success}
    try:
        with atomic_write(folder / IMAGES) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        write_text(folder / RESULT, to_json(entries))
    except OSError as error:
        raise Unwritten(f"--out: {folder} cannot be written: {error.strerror}.") from error
    return f"{folder / IMAGES}, {folder / RESULT}"


def _draw(ended: Ended, output: AttackOutput) -> str:
    """The pictures; their files. One that was not asked for may fail: the result is worth more."""
    if output.plot is None:
        return output.undrawn
    try:
        return _draw_figures(ended, output.plot, output.out)
    except Undrawn as error:
        if output.demanded:
            raise Unwritten(f"--plot: {output.plot} was not drawn: {error}.") from error
        return f"nothing: {error}."


def _draw_figures(ended: Ended, file: Path, folder: Path | None) -> str:
    from slgh.plotting.images import attack_curves, attack_images
    from slgh.plotting.style import as_bytes

    found, attacked = ended.found, ended.attacked
    figures = figures_of(found)
    method = METHODS.get(ended.method, ended.method)
    title = f"{attacked.title}, {method}: {figures['fooled']} of {figures['attacked']} fooled"
    options: dict[str, Any] = {"ids": attacked.ids, "classes": attacked.classes}
    try:
        figure = attack_images(found, attacked.images, pixels=attacked.pixels, title=title, most=DRAWN, **options)
        with atomic_write(file) as stream:
            stream.write(as_bytes(figure, file.suffix[1:].lower()))
        if folder is None or not len(found.history.get("queries", ())):
            return str(file)
        with atomic_write(folder / CURVES) as stream:
            stream.write(as_bytes(attack_curves(found, title=title, **options), "png"))
    except Exception as error:
        raise Undrawn(" ".join(str(error).split()).rstrip(".")) from error
    return f"{file}, {folder / CURVES}"
