"""Draw the pictures of the README and of the documentation, light and dark: python docs/pictures.py.

Names after the command choose some of them, for example `python docs/pictures.py auto`. Files go to docs/images, or to
the folder of `--out`. A picture NAME.png has a dark variant NAME_dark.png, which the site shows in dark mode.
"""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import slgh
from slgh.plotting.style import style

DOCS = Path(__file__).resolve().parent
DPI = 150


def auto(dark: bool) -> Any:
    """Return the first picture of the README: "auto" and L-BFGS on a rugged function."""
    return runpy.run_path(str(DOCS.parent / "examples" / "rugged_function.py"))["draw"](dark=dark)


def homotopy(dark: bool) -> Any:
    """Return the path of slgh_r through a smoothed function of one variable."""
    F = slgh.smooth("x**2/20 - cos(3*x) + 1")
    options = {"t1": 1.3, "gamma": 0.997, "step": 0.15, "max_iter": 2000}
    run = slgh.minimize(F, [6.4], method="slgh_r", history="x", **options)
    with style(dark=dark):
        return slgh.plot(run, F, title="Local minima vanish while t is large: slgh_r on x**2/20 - cos(3*x) + 1")


def plot(dark: bool) -> Any:
    """Return the picture of slgh_r on Himmelblau's function."""
    problem = slgh.problems.himmelblau()
    options = {"t1": 2.0, "gamma": 0.995, "step": 1e-4, "max_iter": 2000}
    run = slgh.minimize(problem.smooth, problem.x0, method="slgh_r", history="x", **options)
    with style(dark=dark):
        return slgh.plot(run, problem.smooth, title="SLGH_r on Himmelblau's function")


PICTURES: dict[str, Callable[[bool], Any]] = {"auto": auto, "homotopy": homotopy, "plot": plot}


def main(words: list[str] | None = None) -> None:
    """Draw the pictures that the command line names, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Of {', '.join(PICTURES)}.")
    parser.add_argument("--out", type=Path, default=DOCS / "images", help="Folder of the files.")
    args = parser.parse_args(words)
    if unknown := set(args.names) - PICTURES.keys():
        parser.error(f"NAME must be one of {', '.join(PICTURES)}, got {', '.join(sorted(unknown))}.")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or PICTURES:
        for dark in (False, True):
            file = args.out / f"{name}{'_dark' * dark}.png"
            with style(dark=dark):
                PICTURES[name](dark).savefig(file, dpi=DPI, metadata={"Software": None})
            print(file)


if __name__ == "__main__":
    main()
