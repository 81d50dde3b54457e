"""The page: its text, and its behavior in a browser, with the keyboard, on a phone and without a network."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import slgh
from slgh.plotting import page as page_module
from slgh.plotting.explorer import Explorer, explore
from slgh.plotting.page import (
    REPLAYED,
    Link,
    Picture,
    Section,
    anchors,
    encode,
    marks,
    render_page,
    write_page,
    write_run_page,
)
from slgh.plotting.path import Path, path_of
from slgh.plotting.table import Table
from slgh.problems import ackley, rosenbrock

HARM = "</script><script>window.harm=1</script><img src=x onerror=window.harm=1>\"'&"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="300"><rect width="600" height="300"/></svg>'
CURVE = slgh.smooth("x**4 - 6*x**2 + x + 4*cos(6*x)")


# Parts of the page


def run(F: Any, x0: Any, label: str, **params: Any) -> Path:
    return path_of(slgh.minimize(F, x0, history="x", seed=0, **params), label)


def explorer_2d() -> Explorer:
    problem = rosenbrock()
    common = {"F": problem.smooth, "x0": problem.x0, "step": 1e-4, "max_iter": 2000}
    paths = [
        run(label="GD", method="gd", **common),
        run(label="SLGH_r", method="slgh_r", t1=1.5, gamma=0.995, **common),
    ]
    box = ((-4, 2), (-2, 4))
    return explore(problem.smooth, name="valley", title="Valley", box=box, t1=1.5, paths=paths, minimizers=[[1.0, 1.0]])


def explorer_1d() -> Explorer:
    common = {"F": CURVE, "x0": [2.6], "step": 5e-3, "max_iter": 300}
    paths = [run(label="SLGH_r", method="slgh_r", t1=1.5, gamma=0.99, **common), run(label="GD", method="gd", **common)]
    return explore(CURVE, name="curve", title="Curve", box=((-3, 3.5),), t1=1.5, paths=paths, minimizers=[[-1.57]])


def table(**changes: Any) -> Table:
    rows = (("GD", "0.284", "match"), ("SLGH_r", "3.2e-2", "within interval"), ("ZOSGD", "12", "differs: misprinted"))
    entries = {"title": "A table", "headings": ("method", "f", "verdict"), "rows": rows, "note": "A note."}
    return Table(**entries | changes)


def hidden_data(text: str) -> list[Any]:
    """Return the data of the explorers in a page, as strict JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    return [json.loads(data, parse_constant=refuse) for data in found]


def decode(text: str, kind: str = "<f8") -> Any:
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.fixture(scope="module")
def explorers() -> dict[str, Explorer]:
    return {"valley": explorer_2d(), "curve": explorer_1d()}


# The text


def test_a_page_without_an_explorer_has_no_plotly_and_no_script() -> None:
    text = render_page("Plain", [Section(name="a", title="A", tables=(table(),))])
    assert "plotly" not in text.lower()
    assert "<script" not in text
    assert len(text) < 20_000


def test_tables_notes_and_pictures_are_on_the_page() -> None:
    text = render_page(
        "T", [Section(name="a", title="A", tables=(table(),), pictures=(Picture(caption="C", image=SVG),))]
    )
    assert "<caption>A table</caption>" in text
    assert '<div class="scroll" role="region" aria-label="A table" tabindex="0">' in text
    assert '<td class="good">within interval</td>' in text
    assert '<td class="bad">differs: misprinted</td>' in text
    assert "A note." in text
    assert f'src="data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}" alt="C"' in text
    assert "<figcaption>C</figcaption>" in text


def test_contents_are_listed_where_there_is_more_than_one_section() -> None:
    sections = [Section(name="a b", title="A"), Section(name="a-b", title="B")]
    assert "<nav" not in render_page("T", sections[:1])
    text = render_page("T", sections)
    assert re.findall(r'<a href="#(.*?)">(.*?)</a>', text) == [("a-b", "A"), ("a-b-2", "B")]
    assert re.findall(r'<section id="(.*?)"', text) == ["a-b", "a-b-2"]


def test_the_header_counts_reproduced_rows_and_links_elsewhere() -> None:
    sections = [
        Section(name="a", title="A", reproduced=(5, 5), watch="Watch <this>."),
        Section(name="b", title="B", reproduced=(2, 3)),
        Section(name="c", title="C"),
    ]
    text = render_page("T", sections, [Link(text="The paper", url="https://example.org/?a&b")])
    assert '<strong class="bad">7 of 8 rows reproduced</strong>' in text
    assert '<strong class="good">5 of 5 rows reproduced</strong>' in render_page("T", sections[:1])
    assert '<a href="https://example.org/?a&amp;b">The paper</a>' in text
    assert "Watch &lt;this&gt;." in text
    assert "rows reproduced" not in render_page("T", sections[2:])


def test_pictures_come_before_tables(explorers: dict[str, Explorer]) -> None:
    text = render_page("T", [Section(name="a", title="A", tables=(table(),), explorer=explorers["valley"])])
    assert text.index('class="plot map"') < text.index("<table>")


def test_nothing_on_the_page_points_elsewhere(explorers: dict[str, Explorer]) -> None:
    text = render_page("T", [Section(name="a", title="A", explorer=explorers["valley"])])
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!#|data:)', own)
    assert "default-src 'none'" in own
    assert "</script" not in page_module._asset("explorer.js")


def test_four_explorers_fit_into_ten_megabytes(explorers: dict[str, Explorer]) -> None:
    sections = [Section(name=f"s{i}", title="S", explorer=explorers["valley"]) for i in range(4)]
    assert len(render_page("T", sections).encode()) < 10_000_000


def test_what_the_page_holds_of_F_is_F(explorers: dict[str, Explorer]) -> None:
    explorer = explorers["valley"]
    (data,) = hidden_data(render_page("T", [Section(name="a", title="A", explorer=explorer)]))
    above = decode(data["above"], "<f4").reshape(explorer.F.shape)
    F = decode(data["low"])[:, None, None] + above
    span = np.ptp(explorer.F, axis=(1, 2), keepdims=True)
    assert (np.abs(F - explorer.F) <= 1e-7 * span).all()
    np.testing.assert_array_equal(decode(data["t"]), explorer.t)
    path = explorer.paths[1].thin(REPLAYED)
    np.testing.assert_array_equal(decode(data["paths"][1]["x"]).reshape(-1, 2), path.x)
    np.testing.assert_array_equal(decode(data["paths"][1]["iteration"]), path.iteration)


def test_small_differences_of_large_values_survive_single_precision() -> None:
    F = 1e9 + np.array([[0.0, 1e-3, 2e-3]] * 2)
    explorer = Explorer(name="", title="", axes=(np.arange(3.0),), t=np.array([1.0, 0.0]), F=F)
    np.testing.assert_allclose(decode(encode(explorer)["above"], "<f4")[:3], [0, 1e-3, 2e-3], rtol=1e-3)


def test_values_that_are_not_finite_are_gaps_and_no_error() -> None:
    F = np.array([[np.nan, np.inf, 1.0], [np.nan] * 3, [-np.inf, 1e300, 0.0]])
    explorer = Explorer(name="", title="", axes=(np.arange(3.0),), t=np.array([2.0, 1.0, 0.0]), F=F)
    (data,) = hidden_data(render_page("T", [Section(name="a", title="A", explorer=explorer)]))
    np.testing.assert_array_equal(decode(data["low"]), [1, 0, 0])
    expected = [np.nan, np.nan, 0, np.nan, np.nan, np.nan, np.nan, np.nan, 0]
    np.testing.assert_array_equal(decode(data["above"], "<f4"), expected)


def test_a_page_is_replaced_as_a_whole_or_not_at_all(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.html"
    write_page(file, "Old", [])
    assert "<title>Old</title>" in file.read_text(encoding="utf-8")

    def refuse(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_page(file, "New", [])
    assert "<title>Old</title>" in file.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("library", ["jinja2", "plotly"])
def test_a_missing_library_is_named_with_the_extra(
    library: str, explorers: dict[str, Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"slgh\[plot\]"):
        render_page("T", [Section(name="a", title="A", explorer=explorers["curve"])])


def test_the_page_of_a_run_has_an_explorer_of_one_and_two_variables(tmp_path: File) -> None:
    def sphere(x: np.ndarray) -> Any:
        return np.sum(x**2, axis=-1)

    for d, explorers in ((1, 1), (2, 1), (3, 0)):
        path = run(sphere, np.ones(d), "zoslgh_r", vectorized=True, method="zoslgh_r", t1=0.7, step=0.1, max_iter=20)
        write_run_page(tmp_path / "run.html", sphere, [path], title="Sphere", tables=[table()])
        text = (tmp_path / "run.html").read_text(encoding="utf-8")
        data = hidden_data(text)
        assert len(data) == explorers
        assert "<caption>A table</caption>" in text
        if data:
            assert decode(data[0]["t"])[0] == 0.7


def test_the_page_of_a_run_that_smoothed_nothing_shows_the_homotopy_all_the_same(tmp_path: File) -> None:
    F = slgh.smooth("x**4 - 3*x**2 + x")
    write_run_page(
        tmp_path / "run.html", F, [run(F, [2.0], "gd", method="gd", step=0.01, max_iter=50)], title="Quartic"
    )
    (data,) = hidden_data((tmp_path / "run.html").read_text(encoding="utf-8"))
    x = decode(data["axes"][0])
    assert decode(data["t"])[0] == pytest.approx((x[-1] - x[0]) / 4)


# The browser


class Visit:
    """Page opened without a network. It records errors."""

    def __init__(self, browser: Any, file: File, *, webgl: bool = True, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESKTOP, "offline": True} | options)
        self.wrong: list[str] = []
        page = self.page = self.context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: self.note(message.text, message.type == "error"))
        page.on("pageerror", lambda error: self.note(str(error)))
        page.on("requestfailed", lambda request: self.note(request.url))
        page.on("request", lambda r: self.note(r.url, not r.url.startswith(("file:", "data:", "blob:"))))
        if not webgl:
            page.add_init_script(NO_WEBGL)
        page.goto(file.as_uri())

    def note(self, what: str, wrong: bool = True) -> None:
        if wrong:
            self.wrong.append(what)

    def start(self, *anchors: str) -> None:
        """Scroll to explorers, which start when they become visible."""
        for anchor in anchors:
            self.page.locator(f"#{anchor}-explorer").scroll_into_view_if_needed()
            self.settle(anchor)

    def settle(self, anchor: str) -> None:
        """Wait until the explorer is drawn."""
        self.page.wait_for_selector(f"#{anchor}-explorer .panels[aria-busy=false]", state="attached")

    def press(self, control: str, *keys: str) -> None:
        """Press keys on a control, whose selector starts with its anchor, and wait for the response."""
        self.page.locator(control).focus()
        for key in keys:
            self.page.keyboard.press(key)
        self.settle(re.split(r"[-\s]", control.removeprefix("#"))[0])

    def drawn(self, plot: str, key: str, trace: str = "") -> Any:
        """Return what is drawn of a trace (by default the first one)."""
        return self.page.evaluate(
            """([plot, key, name]) => {
            const data = document.querySelector(plot).data;
            const found = name ? data.find(trace => trace.name === name) : data[0];
            return Array.from(found[key], row => row?.length ? Array.from(row) : row); }""",
            [plot, key, trace],
        )

    def output(self, control: str) -> str:
        return str(self.page.locator(control).locator("..").locator("output").inner_text())

    def radius(self, anchor: str) -> float:
        return float(self.output(f"#{anchor}-t").removeprefix("t = "))

    def iteration(self, anchor: str) -> int:
        return int(self.output(f"#{anchor}-k").removeprefix("k = "))

    def status(self, anchor: str) -> str:
        return str(self.page.locator(f"#{anchor}-status").inner_text())


NO_WEBGL = """const get = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind.includes('webgl') ? null : get.call(this, kind, ...rest); };"""
"""Software WebGL takes seconds, so tests without a surface disable it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
    with sync_api.sync_playwright() as playwright:
        if found is None and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip(f"no browser: none of {', '.join(names)} is installed")
        flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # WebGL without a GPU
        chromium = playwright.chromium.launch(executable_path=found, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def written(explorers: dict[str, Explorer], tmp_path_factory: pytest.TempPathFactory) -> File:
    file = tmp_path_factory.mktemp("page") / "page.html"
    sections = [
        Section(name="valley", title="Valley", tables=(table(),), explorer=explorers["valley"]),
        Section(name="curve", title="Curve", pictures=(Picture(caption="C", image=SVG),), explorer=explorers["curve"]),
    ]
    write_page(file, "Two functions", sections)
    return file


@pytest.fixture(scope="module")
def desk(browser: Any, written: File) -> Iterator[Visit]:
    visit = Visit(browser, written, webgl=False)
    visit.start("valley", "curve")
    yield visit
    visit.context.close()


@pytest.fixture
def at_start(desk: Visit) -> Iterator[Visit]:
    """The page on a desktop, reset to its initial state. At the end, no error may have occurred."""
    for anchor, chosen in (("valley", 1), ("curve", 0)):
        desk.page.locator(f"#{anchor}-explorer input[type=radio]").nth(chosen).check()
        desk.press(f"#{anchor}-k", "End", "Home")
    yield desk
    assert not desk.wrong


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open another page, in which no error may occur either."""
    visits: list[Visit] = []

    def show(*args: Any, **options: Any) -> Visit:
        visits.append(Visit(browser, *args, **options))
        return visits[-1]

    yield show
    for visit in visits:
        visit.context.close()
        assert not visit.wrong


@pytest.mark.parametrize(
    ("anchor", "plot", "key", "trace"), [("valley", ".map", "z", ""), ("curve", ".curve", "y", "F")]
)
def test_moving_t_changes_the_picture(at_start: Visit, anchor: str, plot: str, key: str, trace: str) -> None:
    plot = f"#{anchor}-explorer {plot}"
    smoothed, seen = at_start.drawn(plot, key, trace), at_start.page.locator(plot).screenshot()
    assert at_start.radius(anchor) == 1.5
    at_start.press(f"#{anchor}-t", "End")
    sharp = at_start.drawn(plot, key, trace)
    assert at_start.radius(anchor) == 0
    assert sharp != smoothed
    assert at_start.page.locator(plot).screenshot() != seen
    at_start.press(f"#{anchor}-t", *["ArrowLeft"] * 5)
    assert 0 < at_start.radius(anchor) < 0.1
    assert at_start.drawn(plot, key, trace) not in (sharp, smoothed)


def test_the_picture_is_F_at_the_frames_and_between_them(at_start: Visit, explorers: dict[str, Explorer]) -> None:
    explorer = explorers["curve"]
    x = explorer.axes[0]
    np.testing.assert_allclose(at_start.drawn("#curve-explorer .curve", "y", "F"), explorer.F[0], rtol=1e-6)
    at_start.press("#curve-t", *["ArrowRight"] * 6)  # a frame and a half
    t = np.sqrt(np.mean(explorer.t[1:3] ** 2))
    assert at_start.radius("curve") == pytest.approx(t, rel=1e-3)
    exact = CURVE.value(x[:, None], np.full(len(x), t))
    np.testing.assert_allclose(at_start.drawn("#curve-explorer .curve", "y", "F"), exact, atol=1e-3 * np.ptp(exact))


def test_colors_run_over_the_whole_scale_at_every_t(at_start: Visit) -> None:
    for key in ("Home", "PageUp", "PageUp", "End"):
        at_start.press("#valley-t", key)
        colors = np.array(at_start.drawn("#valley-explorer .map", "z"))
        assert colors.min() == 0
        assert colors.max() == pytest.approx(1)
        assert 0.2 < np.median(colors) < 0.9


def test_choosing_a_method_by_keyboard_changes_the_path(at_start: Visit) -> None:
    at_start.press("#valley-k", "End")
    before = at_start.drawn("#valley-explorer .map", "y", "chosen")
    assert "SLGH_r at iteration 2000 of 2000" in at_start.status("valley")
    at_start.press("#valley-explorer input:checked", "ArrowUp")
    assert "GD at iteration 2000 of 2000" in at_start.status("valley")
    now = at_start.drawn("#valley-explorer .map", "y", "chosen")
    assert now[0] == before[0] == 2.0
    assert now[-1] != before[-1]


def test_moving_k_moves_t_and_the_path(at_start: Visit, explorers: dict[str, Explorer]) -> None:
    path = explorers["valley"].paths[1].thin(REPLAYED)
    at_start.press("#valley-k", "End")
    assert at_start.iteration("valley") == 2000
    assert at_start.radius("valley") == pytest.approx(path.t[-1], rel=1e-3)
    at_start.press("#valley-k", "Home", "ArrowRight", "ArrowRight")
    assert at_start.iteration("valley") == 2
    assert at_start.radius("valley") == pytest.approx(path.t[2], rel=1e-3)
    np.testing.assert_allclose(at_start.drawn("#valley-explorer .map", "x", "chosen"), path.x[:3, 0])
    np.testing.assert_allclose(at_start.drawn("#valley-explorer .map", "x", "now"), path.x[2:3, 0])
    x = ", ".join(f"{value:.4g}" for value in path.x[2])
    assert f"x = ({x}), f = {path.fun[2]:.4g}, its t = {path.t[2]:.4g}." in at_start.status("valley")


def test_moving_t_changes_the_picture_alone_and_the_text_says_both(at_start: Visit) -> None:
    at_start.press("#valley-k", "PageUp")
    k, own = at_start.iteration("valley"), at_start.radius("valley")
    way = at_start.drawn("#valley-explorer .map", "x", "chosen")
    at_start.press("#valley-t", "PageUp", "PageUp")
    t = at_start.radius("valley")
    assert 0 < t < own
    assert at_start.iteration("valley") == k
    assert at_start.drawn("#valley-explorer .map", "x", "chosen") == way
    assert at_start.status("valley").startswith(f"Picture: F(x, {t:.4g}).")
    assert f"SLGH_r at iteration {k} of 2000: " in at_start.status("valley")
    assert at_start.status("valley").endswith(f"its t = {own:.4g}.")
    at_start.press("#valley-k", "ArrowRight")
    assert t < at_start.radius("valley") < own


def test_choosing_a_method_keeps_k_and_takes_its_t(at_start: Visit, explorers: dict[str, Explorer]) -> None:
    at_start.press("#valley-k", "PageUp", "PageUp")
    k, own = at_start.iteration("valley"), at_start.radius("valley")
    assert 0 < k < 2000
    at_start.press("#valley-t", "Home")
    at_start.press("#valley-explorer input:checked", "ArrowUp")
    assert (at_start.iteration("valley"), at_start.radius("valley")) == (k, 0)
    assert "Picture: F(x, 0) = f(x)." in at_start.status("valley")
    assert at_start.status("valley").endswith("its t = 0.")
    at_start.press("#valley-explorer input:checked", "ArrowDown")
    assert (at_start.iteration("valley"), at_start.radius("valley")) == (k, own)


def test_the_same_t_is_written_the_same_however_small(at_start: Visit) -> None:
    at_start.press("#valley-k", "End")
    assert 0 < at_start.radius("valley") < 1e-3
    assert at_start.status("valley").endswith(f"its {at_start.output('#valley-t')}.")


@pytest.mark.parametrize(("anchor", "plot"), [("valley", ".map"), ("curve", ".curve")])
def test_the_chosen_path_its_rest_and_the_others_look_different_and_the_caption_says_how(
    at_start: Visit, explorers: dict[str, Explorer], anchor: str, plot: str
) -> None:
    explorer = explorers[anchor]
    chosen = {"valley": 1, "curve": 0}[anchor]
    path = explorer.paths[chosen].thin(REPLAYED)
    other = explorer.paths[1 - chosen].thin(REPLAYED)
    at_start.press(f"#{anchor}-k", "PageUp")
    (k,) = np.flatnonzero(path.iteration == at_start.iteration(anchor))
    plot = f"#{anchor}-explorer {plot}"
    np.testing.assert_allclose(at_start.drawn(plot, "x", "chosen"), path.x[: k + 1, 0])
    np.testing.assert_allclose(at_start.drawn(plot, "x", "rest"), path.x[k:, 0])
    np.testing.assert_allclose(at_start.drawn(plot, "x", "other"), other.x[:, 0])
    looks = at_start.page.evaluate(
        """plot => document.querySelector(plot).data.filter(trace => ['chosen', 'rest', 'other'].includes(trace.name))
        .map(trace => [trace.name, [trace.marker?.size ?? trace.line.width, trace.opacity]])""",
        plot,
    )
    size, opacity = ({name: look[i] for name, look in looks} for i in (0, 1))
    assert size["chosen"] > 2 * size["rest"]
    assert opacity["other"] < 0.7 < opacity["chosen"] == opacity["rest"] == 1
    caption = at_start.page.locator(f"#{anchor}-explorer figcaption").first.inner_text()
    dots = anchor == "curve"
    bold, thin, kind = ("Large dots", "Small dots", "dots") if dots else ("Bold line", "Thin line", "lines")
    says = f"{bold}: the chosen path up to iteration k. {thin}: the rest of it. Faint {kind}: the other methods."
    assert says in caption
    assert "Star: global minimum." in caption


def test_stars_are_where_f_is_least(at_start: Visit) -> None:
    at_start.press("#curve-t", "PageUp")  # a star lies on f, whatever t is shown
    assert at_start.drawn("#valley-explorer .map", "x", "minima") == [1.0]
    assert at_start.drawn("#valley-explorer .map", "y", "minima") == [1.0]
    (x,), (y,) = (at_start.drawn("#curve-explorer .curve", key, "minima") for key in "xy")
    assert x == -1.57
    assert y == pytest.approx(CURVE.value(np.array([[x]]), np.zeros(1))[0], abs=1e-3)


def test_marks_below_the_slider_are_where_t_is_what_they_say(at_start: Visit, explorers: dict[str, Explorer]) -> None:
    slider = at_start.page.locator("#valley-t")
    last = int(slider.get_attribute("max"))
    shown = at_start.page.locator("#valley-explorer .t .marks span").all_inner_texts()
    assert [text for _, text in marks(explorers["valley"].t)] == shown
    assert len(shown) == 5
    for share, text in marks(explorers["valley"].t):
        slider.fill(str(round(share * last)))
        assert f"{at_start.radius('valley'):.2g}" == text
    at_start.settle("valley")


def test_a_curve_has_no_corners(at_start: Visit) -> None:
    # The library omits nearly straight segments by default.
    drawn = at_start.page.locator("#curve-explorer .curve .scatterlayer .trace").nth(1).locator("path.js-line")
    assert drawn.get_attribute("d").count(",") > 900


def test_dots_lie_on_the_curve(at_start: Visit) -> None:
    at_start.press("#curve-k", "PageUp")
    x, y = (np.array(at_start.drawn("#curve-explorer .curve", key, "chosen")) for key in "xy")
    assert len(x) > 10
    t = np.full(len(x), at_start.radius("curve"))
    np.testing.assert_allclose(y, CURVE.value(x[:, None], t), atol=0.05)


def test_play_runs_to_the_end_and_stops_there(at_start: Visit) -> None:
    button = at_start.page.locator("#curve-explorer .play")
    at_start.press("#curve-k", "End", "PageDown")
    assert at_start.iteration("curve") < 300
    button.focus()
    at_start.page.keyboard.press("Space")
    assert button.inner_text() == "Pause"
    at_start.page.wait_for_function("() => document.querySelector('#curve-explorer .play').textContent === 'Play'")
    assert at_start.iteration("curve") == 300
    assert at_start.radius("curve") == pytest.approx(1.5 * 0.99**300, rel=1e-3)
    at_start.page.keyboard.press("Enter")  # again from the start
    at_start.page.wait_for_function("() => +document.querySelector('#curve-k').value % 300 > 2")
    at_start.page.keyboard.press("Enter")
    assert button.inner_text() == "Play"
    paused = at_start.iteration("curve")
    assert 0 < paused < 300
    at_start.page.wait_for_timeout(300)
    assert at_start.iteration("curve") == paused


def test_where_motion_is_unwelcome_the_button_goes_step_by_step(at_start: Visit) -> None:
    button = at_start.page.locator("#curve-explorer .play")
    says = "text => document.querySelector('#curve-explorer .play').textContent === text"
    at_start.page.emulate_media(reduced_motion="reduce")
    at_start.page.wait_for_function(says, arg="Step")
    button.click()
    once = at_start.iteration("curve")
    at_start.page.wait_for_timeout(300)
    assert 0 < at_start.iteration("curve") == once < 300
    button.click()
    assert at_start.iteration("curve") == 2 * once
    at_start.page.emulate_media(reduced_motion="no-preference")
    at_start.page.wait_for_function(says, arg="Play")


def test_every_control_is_reached_by_the_tabulator_and_shows_it(at_start: Visit) -> None:
    at_start.page.locator("nav a").last.focus()
    reached = []
    for _ in range(5):
        at_start.page.keyboard.press("Tab")
        look = """() => { const e = document.activeElement;
            return [e.id || e.className || e.type, getComputedStyle(e).outlineStyle, e.labels[0]?.innerText]; }"""
        reached.append(at_start.page.evaluate(look))
    assert [name for name, _, _ in reached] == ["radio", "valley-t", "valley-k", "play", "valley-beside"]
    assert all(outline != "none" for _, outline, _ in reached)
    assert [label for _, _, label in reached] == [
        "SLGH_r",
        "Radius t of the picture, finer toward 0",
        "Iteration k",
        None,
        "Compare with",
    ]


def test_two_methods_are_side_by_side_at_one_iteration_each_at_its_t(
    at_start: Visit, explorers: dict[str, Explorer]
) -> None:
    gd, slgh_r = (path.thin(REPLAYED) for path in explorers["valley"].paths)
    at_start.press("#valley-k", "PageUp", "PageUp")
    k = int(at_start.page.locator("#valley-k").input_value())
    at = int(np.searchsorted(gd.iteration, slgh_r.iteration[k], side="right")) - 1
    second = "#valley-explorer .second"
    np.testing.assert_allclose(at_start.drawn(second, "x", "now"), [gd.x[at, 0]])
    np.testing.assert_allclose(at_start.drawn(second, "customdata"), explorers["valley"].F[-1], rtol=1e-4, atol=1e-2)
    title = at_start.page.locator("#valley-explorer .of-second").inner_text()
    assert title.endswith("map of F(x, 0)")
    at_start.press("#valley-t", "Home")  # by hand: both maps show this t
    assert at_start.drawn(second, "customdata") == at_start.drawn("#valley-explorer .map", "customdata")
    # Choosing the method beside swaps the two.
    at_start.page.locator("#valley-beside").select_option("1")
    at_start.settle("valley")
    assert "GD at iteration" in at_start.status("valley")
    assert at_start.page.locator("#valley-explorer input:checked").get_attribute("value") == "0"
    at_start.page.locator("#valley-beside").select_option("0")
    at_start.settle("valley")


@pytest.mark.parametrize("anchor", ["valley", "curve"])
def test_curves_of_f_and_t_follow_the_iteration(at_start: Visit, explorers: dict[str, Explorer], anchor: str) -> None:
    chosen = {"valley": 1, "curve": 0}[anchor]
    path = explorers[anchor].paths[chosen].thin(REPLAYED)
    at_start.press(f"#{anchor}-k", "PageUp", "PageUp")
    k = int(at_start.page.locator(f"#{anchor}-k").input_value())
    plot = f"#{anchor}-explorer .curves"
    for axis, values in (("y", path.fun), ("y2", path.t)):
        np.testing.assert_allclose(at_start.drawn(plot, "x", f"chosen {axis}"), path.iteration[: k + 1])
        np.testing.assert_allclose(at_start.drawn(plot, "y", f"chosen {axis}"), values[: k + 1])
    shape = at_start.page.evaluate("plot => document.querySelector(plot).layout.shapes[0].x0", plot)
    assert shape == path.iteration[k]


def test_without_webgl_a_note_stands_in_for_the_surface(at_start: Visit) -> None:
    assert "WebGL" in at_start.page.locator("#valley-explorer .surface").inner_text()
    assert at_start.page.locator("#valley-turn").is_disabled()


def test_the_surface_is_F_with_the_path_on_it_and_turns_by_keyboard(
    open_page: Any, written: File, explorers: dict[str, Explorer]
) -> None:
    visit = open_page(written)
    visit.start("valley")
    # It opens at the start of the last method, and at its t.
    assert visit.page.locator("#valley-explorer input:checked").get_attribute("value") == "1"
    assert (visit.radius("valley"), visit.iteration("valley")) == (1.5, 0)
    plot = "#valley-explorer .surface"
    seen = visit.page.locator(plot).screenshot()
    visit.press("#valley-t", "End")
    f = explorers["valley"].F[-1]
    np.testing.assert_allclose(visit.drawn(plot, "z"), f, rtol=1e-5, atol=1e-3)
    lifted = np.array([visit.drawn(plot, key, "chosen") for key in "xyz"])
    assert np.abs(lifted[2] - rosenbrock().fun(lifted[:2].T)).max() < 0.05 * f.max()
    assert visit.page.locator(plot).screenshot() != seen
    eye = "() => document.querySelector('#valley-explorer .surface').layout.scene.camera.eye.x"
    before = visit.page.evaluate(eye)
    visit.press("#valley-turn", "ArrowRight", "ArrowRight")
    assert visit.page.evaluate(eye) != before
    boxes = {
        name: visit.page.locator(f"#valley-explorer .{name}").bounding_box()
        for name in ("map", "second", "curves", "surface")
    }
    assert boxes["map"]["y"] == boxes["second"]["y"]  # side by side
    assert boxes["curves"]["y"] == boxes["surface"]["y"]


def test_no_wall_hides_the_ball_from_wherever_it_is_seen(open_page: Any, tmp_path: File) -> None:
    def pit(x: np.ndarray) -> Any:
        return np.tanh(20 * (np.hypot(x[:, 0], x[:, 1]) - 0.3))

    bottom = Path(label="", iteration=np.arange(1), x=np.array([[0.1, 0.0]]), t=np.zeros(1), fun=-np.ones(1))
    explorer = explore(pit, name="pit", title="Pit", box=((-1, 1), (-1, 1)), t1=1.0, paths=[bottom], frames=2)
    write_page(tmp_path / "page.html", "Pit", [Section(name="pit", title="Pit", explorer=explorer)])
    visit = open_page(tmp_path / "page.html")
    visit.start("pit")
    plot = "#pit-explorer .surface"
    F = RegularGridInterpolator(explorer.axes, explorer.F[-1].T)
    for keys in ([], ["Home"], *[["PageUp"] * 3] * 3):
        visit.press("#pit-turn", *keys)
        scene = visit.page.evaluate("plot => document.querySelector(plot).layout.scene", plot)
        low, high = np.array([scene[f"{name}axis"]["range"] for name in "xyz"]).T
        size = np.array([scene["aspectratio"][name] for name in "xyz"])
        eye = (low + high) / 2 + np.array([scene["camera"]["eye"][name] for name in "xyz"]) / size * (high - low)
        ball = np.array([visit.drawn(plot, name, "now")[0] for name in "xyz"])
        place = np.array([0.1, 0.0, F((0.1, 0.0))])

        def crosses(start: np.ndarray, eye: np.ndarray = eye, low: np.ndarray = low, high: np.ndarray = high) -> bool:
            """Return True if the line of sight passes through the surface."""
            sight = start + np.linspace(0.01, 1, 2000)[:, None] * (eye - start)
            sight = sight[((sight > low) & (sight < high)).all(axis=1)]
            above = sight[:, 2] > F(sight[:, :2])
            return bool(above.any() and not above.all())

        assert crosses(place)
        assert not crosses(ball)
        # The ball appears in the right position: its position, the ball and the eye are on one line.
        toward = [(end - place) / (high - low) for end in (ball, eye)]
        assert toward[0] @ toward[1] > (1 - 1e-6) * np.prod(np.linalg.norm(toward, axis=1))


def test_a_surface_is_dragged_and_the_ball_follows(open_page: Any, written: File) -> None:
    visit = open_page(written)
    visit.start("valley")
    plot = "#valley-explorer .surface"
    before = [visit.drawn(plot, name, "now")[0] for name in "xyz"]
    visit.page.locator("#valley-turn").scroll_into_view_if_needed()
    box = visit.page.locator(plot).bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visit.page.mouse.move(*middle)
    visit.page.mouse.down()
    for step in range(1, 4):
        visit.page.mouse.move(middle[0] + 30 * step, middle[1])
    visit.page.wait_for_timeout(300)  # the library follows the mouse from frame to frame
    visit.page.mouse.up()
    visit.page.wait_for_timeout(100)
    visit.settle("valley")
    assert [visit.drawn(plot, name, "now")[0] for name in "xyz"] != before


def test_figures_stand_side_by_side_where_there_is_room(open_page: Any, tmp_path: File) -> None:
    pictures = tuple(Picture(caption=f"C{i}", image=SVG) for i in range(2))
    write_page(tmp_path / "page.html", "T", [Section(name="a", title="A", pictures=pictures)])
    for viewport, abreast in ((DESKTOP, True), (PHONE, False)):
        page = open_page(tmp_path / "page.html", viewport=viewport).page
        first, second = (page.locator(".picture").nth(i).bounding_box() for i in range(2))
        assert (first["y"] == second["y"]) == abreast
        assert first["width"] >= (480 if abreast else 300)


def test_a_phone_shows_all_of_it_in_its_width(open_page: Any, written: File) -> None:
    visit = open_page(written, viewport=PHONE, has_touch=True)
    visit.start("valley", "curve")
    page = visit.page
    outside = """width => [...document.querySelectorAll('.explorer *, .picture *')]
        .map(e => e.getBoundingClientRect()).filter(box => box.width && box.right > width + 0.5).length"""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        visit.settle("valley")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(outside, PHONE["width"]) == 0
    for control in ("#valley-t", "#valley-k", "#valley-explorer .play", "#valley-explorer fieldset label >> nth=0"):
        assert page.locator(control).bounding_box()["height"] >= 44, control
    assert page.locator("#valley-explorer .controls").bounding_box()["height"] <= 120
    boxes = [page.locator(f"#valley-explorer {plot}").bounding_box() for plot in (".map", ".surface")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]


def test_what_looks_like_html_is_text(open_page: Any, explorers: dict[str, Explorer], tmp_path: File) -> None:
    curve = explorers["curve"]
    first = curve.paths[0]
    harmful = Path(label=HARM, iteration=first.iteration, x=first.x, t=first.t, fun=first.fun)
    explorer = Explorer(name=HARM, title=HARM + "!", axes=curve.axes, t=curve.t, F=curve.F, paths=(harmful,))
    harm = table(title=HARM, headings=(HARM,), rows=((HARM,),), note=HARM)
    pictures = (Picture(caption=HARM, image=SVG),)
    section = Section(name=HARM, title=HARM, tables=(harm,), pictures=pictures, explorer=explorer)
    write_page(tmp_path / "page.html", HARM, [section, section])
    anchor = anchors([HARM])[0]
    visit = open_page(tmp_path / "page.html")
    visit.start(anchor)
    assert visit.page.evaluate("window.harm") is None
    assert visit.page.title() == HARM
    for place in ("h2", "td", "th", ".note", "nav a", ".picture figcaption", "fieldset label"):
        assert visit.page.locator(place).first.inner_text() == HARM
    assert f"{HARM} at iteration 0 of" in visit.status(anchor)


def test_gaps_ways_out_of_the_box_and_nothing_at_all_are_drawn(open_page: Any, tmp_path: File) -> None:
    def holes(x: np.ndarray) -> Any:
        return np.log(x[:, 0]) + ackley().fun(x)

    lost = Path(
        label="lost",
        iteration=np.arange(4),
        x=np.array([[1.0, 1.0], [9.0, 9.0], [np.nan, 0.0], [1.0, -1.0]]),
        t=np.array([2.0, 1.0, np.nan, 0.0]),
        fun=np.array([1.0, np.inf, np.nan, 2.0]),
    )
    still = Path(label="still", iteration=np.arange(1), x=np.ones((1, 2)), t=np.zeros(1), fun=np.zeros(1))
    box = ((-2.0, 3.0), (-2.0, 3.0))
    axes = (np.arange(5.0), np.arange(4.0))
    t = np.array([1.0, 0.0])
    gaps = explore(holes, name="a", title="a", box=box, t1=1.0, paths=(lost, still))
    nothing = Explorer(name="b", title="b", axes=axes, t=t, F=np.full((2, 4, 5), np.nan))
    flat = Explorer(name="c", title="c", axes=axes[:1], t=t, F=np.full((2, 5), 7.0))
    sections = [Section(name=e.name, title=e.name, explorer=e) for e in (gaps, nothing, flat)]
    write_page(tmp_path / "page.html", "Gaps", sections)
    visit = open_page(tmp_path / "page.html")
    visit.start("a", "b", "c")
    visit.press("#a-explorer input:checked", "ArrowUp")
    visit.press("#a-k", "ArrowRight", "ArrowRight", "ArrowRight")
    assert "iteration 3 of 3" in visit.page.locator("#a-status").inner_text()
    visit.press("#a-explorer input:checked", "ArrowDown")
    assert visit.page.locator("#a-k").is_disabled()
    for anchor in "abc":
        visit.press(f"#{anchor}-t", "End")
        assert visit.radius(anchor) == 0
    np.testing.assert_array_equal(visit.drawn("#c-explorer .curve", "y", "F"), [7.0] * 5)
