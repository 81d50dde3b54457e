"""The page of a run: one self-contained HTML file with tables, figures and explorers."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slgh.checks import MissingLibraryError
from slgh.files import write_text
from slgh.plotting.explorer import FRAMES, Explorer, box_around, explore
from slgh.plotting.path import COLUMNS, Path
from slgh.plotting.style import looks
from slgh.plotting.table import Table

REPLAYED = 400
"""Maximum number of iterations of a path in the replay."""

ABOUT_HOMOTOPY = (
    "Gaussian homotopy minimizes f through F(x, t) = E f(x + t u), u ~ N(0, I), which is f smoothed with radius t. At "
    "a large t only the overall shape of f remains. At t = 0, F is f. The methods shrink t while they descend in x."
)
"""Default introduction of a page."""

GOOD, BAD = ("match", "within interval"), ("differs",)
"""Table cells that get a mark: these words, alone or before a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure: the bytes of an image file, and its caption."""

    caption: str
    image: bytes
    media_type: str = "image/svg+xml"

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.image).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the page."""

    name: str
    title: str
    texts: tuple[str, ...] = ()
    """Paragraphs below the title."""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    explorer: Explorer | None = None
    watch: str = ""
    """Hint for the reader: the main thing to see in the explorer."""
    reproduced: tuple[int, int] | None = None
    """Number of the paper's rows that are reproduced, and of all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link in the header of the page."""

    text: str
    url: str


def write_run_page(
    file: str | os.PathLike[str],
    F: Any,
    paths: Sequence[Path],
    *,
    title: str,
    tables: Sequence[Table] = (),
    pictures: Sequence[Picture] = (),
    minimizers: Any = None,
) -> None:
    """Write the page of a single run, or of several on one function, with an explorer for one and two variables.

    Parameters
    ----------
    file
        The file, replaced atomically.
    F
        The objective: a closed form, or a function that maps points (n, d) to values (n,).
    paths
        One path per method, from `slgh.plotting.path.path_of`.
    title
        The heading, for example the name of the function.
    tables, pictures
        Further content.
    minimizers
        Known global minimizers (n, d), which the explorer has in view and marks.
    """
    section = Section(
        name="run",
        title=title,
        tables=tuple(tables),
        pictures=tuple(pictures),
        explorer=_explorer_of(F, paths, title, minimizers),
    )
    write_page(file, title, [section])


def _explorer_of(F: Any, paths: Sequence[Path], title: str, minimizers: Any) -> Explorer | None:
    if not paths or paths[0].x.shape[1] not in FRAMES:
        return None
    box = box_around(paths, minimizers)
    largest = max((float(t) for path in paths for t in path.t if np.isfinite(t)), default=0.0)
    # A run without smoothing has no t: show the homotopy that it could have followed.
    t1 = largest if largest > 0 else (box[0][1] - box[0][0]) / 4
    return explore(F, name="run", title=title, box=box, t1=t1, paths=paths, minimizers=minimizers)


def write_page(
    file: str | os.PathLike[str],
    title: str,
    sections: Sequence[Section],
    links: Sequence[Link] = (),
    about: str = ABOUT_HOMOTOPY,
) -> None:
    """Write the page atomically."""
    write_text(file, render_page(title, sections, links, about))


def render_page(
    title: str, sections: Sequence[Section], links: Sequence[Link] = (), about: str = ABOUT_HOMOTOPY
) -> str:
    """Return the page as HTML. Titles, texts, labels and cells are plain text and are escaped."""
    try:
        import jinja2
    except ImportError as missing:
        raise MissingLibraryError('The page needs Jinja: pip install "slgh[plot]".') from missing
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"verdict": verdict, "marks": marks}
    counts = [section.reproduced for section in sections if section.reproduced is not None]
    explorers = any(section.explorer is not None for section in sections)
    return environment.from_string(_asset("page.html.j2")).render(
        title=title,
        about=about,
        links=links,
        reproduced=tuple(map(sum, zip(*counts, strict=True))),
        sections=list(zip(anchors([section.name for section in sections]), sections, strict=True)),
        data=[None if section.explorer is None else encode(section.explorer) for section in sections],
        style=_asset("page.css"),
        plotly=_plotly() if explorers else "",
        script=_asset("explorer.js") if explorers else "",
    )


def _asset(name: str) -> str:
    return files("slgh.plotting").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return plotly.js."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as missing:
        raise MissingLibraryError('The explorer needs plotly: pip install "slgh[plot]".') from missing
    return str(get_plotlyjs())


def verdict(cell: str) -> str:
    """Return the mark of a table cell: "good", "bad" or none.

    >>> verdict("differs: misprinted"), verdict("match"), verdict("matchless")
    ('bad', 'good', '')
    """
    begins = cell.split(":")[0]
    return "good" if begins in GOOD else "bad" if begins in BAD else ""


def marks(t: NDArray[np.float64]) -> list[tuple[float, str]]:
    """Return labels of the slider of t: positions from 0 to 1, and t there.

    >>> marks(1.5 * np.linspace(1, 0, 5) ** 2)
    [(0.0, '1.5'), (0.25, '0.84'), (0.5, '0.38'), (0.75, '0.094'), (1.0, '0')]
    """
    last = len(t) - 1
    at = sorted({round(share * last) for share in (0, 0.25, 0.5, 0.75, 1)})
    return [(round(i / last, 4), f"{t[i]:.2g}") for i in at]


def anchors(names: Sequence[str]) -> list[str]:
    """Return unique HTML anchors: each name in letters, digits and dashes, numbered if it repeats.

    >>> anchors(["hole", "f(x) < 1", "hole", ""])
    ['hole', 'f-x-1', 'hole-3', 'section-4']
    """
    found: list[str] = []
    for i, name in enumerate(names, 1):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or f"section-{i}"
        while plain in found:
            plain += f"-{i}"
        found.append(plain)
    return found


def encode(explorer: Explorer) -> dict[str, Any]:
    """Return an explorer for JSON: arrays as text, F in single precision relative to the least value at each t."""
    F = explorer.F.reshape(len(explorer.t), -1)
    low = np.where(np.isfinite(F), F, np.inf).min(axis=1)
    low[np.isinf(low)] = 0.0
    with np.errstate(over="ignore"):
        above = (F - low[:, None]).astype(np.float32)
    above[np.isinf(above)] = np.nan
    return {
        "axes": [text(axis) for axis in explorer.axes],
        "t": text(explorer.t),
        "minimizers": text(np.empty(0) if explorer.minimizers is None else explorer.minimizers),
        "low": text(low),
        "above": text(above),
        "paths": [
            _encode_path(path.without_restarts().thin(REPLAYED), color)
            for path, (color, _) in zip(explorer.paths, looks([path.label for path in explorer.paths]), strict=True)
        ],
    }


def _encode_path(path: Path, color: str) -> dict[str, str]:
    arrays = {name: text(getattr(path, name)) for name in COLUMNS}
    return {"label": path.label, "color": color, "phase": text(path.phase_numbers())} | arrays


def text(array: NDArray[Any]) -> str:
    """Return an array's bytes in base 64, little-endian: float32 as it is, everything else as float64."""
    kind = "<f4" if array.dtype == np.float32 else "<f8"
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode()
