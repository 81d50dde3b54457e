"""Figures of runs: their content, and errors for data that cannot be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
import scipy.optimize
from matplotlib.collections import LineCollection
from numpy.testing import assert_allclose

import slgh
from libraries import other_libraries, to_library
from slgh.paper.experiments.figures import Panel, curves, surfaces, trajectories
from slgh.plotting.figures import RunCurves
from slgh.plotting.path import path_of, thinned
from slgh.plotting.style import COLORS, DASHES, as_bytes
from slgh.plotting.table import Table

matplotlib.use("Agg")

HIMMELBLAU = slgh.problems.himmelblau()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def ripples(x: Any) -> float:
    """Function of one point, not vectorized."""
    assert x.shape == (1,)
    return float(x[0] ** 2 / 20 - np.cos(3 * x[0]) + 1)


def named(figure: Any, label: str) -> Any:
    """Return the axes with this label."""
    (found,) = [ax for ax in figure.axes if ax.get_ylabel() == label]
    return found


def run_himmelblau(**options: Any) -> slgh.Result:
    parameters: dict[str, Any] = {"method": "slgh_r", "t1": 2.0, "step": 1e-4, "max_iter": 300, "history": "x"}
    return slgh.minimize(HIMMELBLAU.smooth, HIMMELBLAU.x0, **parameters | options)


def test_in_two_variables_the_path_lies_over_contours_and_its_color_is_t() -> None:
    result = run_himmelblau()
    figure = slgh.plot(result, HIMMELBLAU.smooth, title="Himmelblau")
    plane, left, right = figure.axes[0], named(figure, "$f(x_k)$"), named(figure, "$t_k$")
    assert figure.get_suptitle() == "Himmelblau"
    lines = [c for c in plane.collections if isinstance(c, LineCollection)]
    (line,) = [c for c in lines if (colors := c.get_array()) is not None and len(colors) == 300]
    assert_allclose(np.asarray(line.get_array()), result.history["t"])
    assert_allclose(line.get_segments()[-1][-1], result.x)
    assert_allclose(left.lines[0].get_ydata(), result.history["fun"])
    assert_allclose(right.lines[0].get_ydata(), result.history["t"])


def test_in_one_variable_the_path_lies_on_the_smoothed_function() -> None:
    options: dict[str, Any] = {"method": "zoslgh_r", "t1": 1.0, "step": 0.1, "samples": 20, "max_iter": 200}
    result = slgh.minimize(ripples, [4.0], seed=0, history="x", **options)
    line = slgh.plot(result, ripples).axes[0]
    legend = line.get_legend()
    assert legend is not None
    drawn = {text.get_text() for text in legend.get_texts()}
    assert {"f", "F(., 1)", "F(., 0.5)"} <= drawn
    (path,) = [at for at in line.lines if at.get_label() == "$(x_k, F(x_k, t_k))$"]
    x, t = np.asarray(path.get_xdata()), path_of(result).thin(200).t
    exact = (x**2 + t**2) / 20 - np.exp(-4.5 * t**2) * np.cos(3 * x) + 1
    assert_allclose(np.asarray(path.get_ydata()), exact, atol=0.01)


def test_a_run_without_a_radius_is_drawn_as_well() -> None:
    result = slgh.minimize(ripples, [4.0], method="gd", grad=lambda x: x / 10, step=0.1, max_iter=20, history="x")
    assert {line.get_label() for line in slgh.plot(result, ripples).axes[0].lines} >= {"f"}


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_batch_is_drawn_with_a_band(d: int) -> None:
    def bowl(x: Any) -> Any:
        return np.sum(x**2, axis=-1)

    starts = np.random.default_rng(0).normal(size=(4, d))
    result = slgh.minimize(bowl, starts, batched=True, vectorized=True, max_evals=200, seed=0, history="x")
    figure = slgh.plot(result, bowl, vectorized=True)
    left = named(figure, "mean of $f$ around $x_k$")
    assert len(left.collections) == 1, "the band"
    assert_allclose(left.lines[0].get_ydata(), np.median(result.history["fun"], axis=1))


@other_libraries
def test_runs_of_every_library_are_drawn(library: str) -> None:
    if "float64" not in str(to_library(np.zeros(2), library).dtype):
        pytest.skip("another dtype")
    parameters: dict[str, Any] = {"method": "slgh_r", "t1": 2.0, "step": 1e-4, "max_iter": 20, "history": "x"}
    result = slgh.minimize(HIMMELBLAU.smooth, to_library(HIMMELBLAU.x0, library), **parameters)
    assert slgh.plot(result, HIMMELBLAU.smooth).axes


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="which history=0 turns off"):
        slgh.plot(run_himmelblau(history=0))
    others: list[Any] = [scipy.optimize.OptimizeResult(), [run_himmelblau()], None]
    for other in others:
        with pytest.raises(ValueError, match=r"`result` must be a Result of slgh\.minimize"):
            slgh.plot(other)
    with pytest.raises(ValueError, match='history="x"'):
        path_of(run_himmelblau(history="full"))


def test_values_that_are_not_finite_are_left_out() -> None:
    def wall(x: Any) -> float:
        return float((x[0] - 1) ** 2) if x[0] > 0 else np.nan

    result = slgh.minimize(wall, [3.0], max_evals=300, seed=0, history="x")
    (f,) = [line for line in slgh.plot(result, wall).axes[0].lines if line.get_label() == "f"]
    assert_allclose(np.isfinite(np.asarray(f.get_ydata())), np.asarray(f.get_xdata()) > 0)


def test_matplotlib_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_himmelblau()
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "slgh\[plot\]"'):
        slgh.plot(result)


@pytest.mark.slow
def test_the_users_settings_stay() -> None:
    before = dict(matplotlib.rcParams)
    as_bytes(slgh.plot(run_himmelblau(), HIMMELBLAU.fun, vectorized=True), "svg")
    assert dict(matplotlib.rcParams) == before


def test_a_path_ends_where_the_run_did() -> None:
    starts = np.array([[5.0, 5.0], [1.0, 1.0]])
    stops = slgh.minimize(
        HIMMELBLAU.fun, starts, batched=True, vectorized=True, max_evals=2000, target=1.0, seed=0, history="x"
    )
    for b in range(2):
        path = path_of(stops, problem=b)
        assert path.iteration[-1] == stops.nit[b]
        assert (np.diff(path.iteration) > 0).all()
        assert_allclose(path.x[0], starts[b])
        assert_allclose(path.x[-1], stops.x[b])


@pytest.mark.parametrize(("n", "most"), [(1, 10), (10, 10), (11, 10), (100_000, 240)])
def test_thinned_rows_are_few_and_hold_both_ends(n: int, most: int) -> None:
    keep = thinned(n, most)
    assert (keep[0], keep[-1]) == (0, n - 1)
    assert len(keep) <= most + 1
    assert (np.diff(keep) > 0).all()


# The kinds of figures


def test_surfaces_are_drawn_side_by_side() -> None:
    panels = [Panel(title="f", fun=HIMMELBLAU.fun), Panel(title="g", fun=lambda x: -HIMMELBLAU.fun(x))]
    figure = surfaces(panels, ((-5, 5), (-5, 5)), points=20)
    assert [ax.get_title() for ax in figure.axes] == ["f", "g"]
    assert b"<image" in as_bytes(figure, "svg"), "thousands of facets are rasterized"


def test_curves_show_the_median_and_the_band() -> None:
    fun = np.array([[1.0, 2.0, 9.0], [1.0, 3.0, 9.0]])
    figure = curves([RunCurves(label="ZOSLGH_r", iteration=np.arange(2), fun=fun, t=fun / 10)], log=True)
    left, right = figure.axes
    assert_allclose(np.asarray(left.lines[0].get_ydata()), [2, 3])
    assert_allclose(np.asarray(right.lines[0].get_ydata()), [0.2, 0.3])
    assert left.get_yscale() == "log"
    assert figure.legends[0].get_texts()[0].get_text() == "ZOSLGH$_r$"


def test_trajectories_begin_and_end_with_the_paths() -> None:
    path = path_of(run_himmelblau(), "SLGH_r")
    panel = Panel(title="f", fun=HIMMELBLAU.fun)
    (ax,) = trajectories([panel], ((-1, 6), (-1, 6)), [path], minimizers=HIMMELBLAU.minimizers).axes
    line, start, end, stars = ax.lines
    assert_allclose(np.transpose(np.asarray(line.get_data())), path.x)
    assert_allclose(np.asarray(start.get_data()), path.x[0][:, None])
    assert_allclose(np.asarray(end.get_data()), path.x[-1][:, None])
    assert len(np.asarray(stars.get_xdata())) == 4


def test_figures_are_the_same_bytes_each_time() -> None:
    def draw() -> bytes:
        runs = RunCurves(label="a", iteration=np.arange(3), fun=np.ones((3, 1)), t=np.ones((3, 1)))
        return as_bytes(curves([runs], log=False), "svg")

    assert draw() == draw()


def test_colors_can_be_told_apart() -> None:
    """Also for color-blind readers: by the matrices of Machado et al. for full deuteranopia and protanopia."""
    matrices: dict[str, Any] = {
        "normal": np.eye(3),
        "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    }
    rgb = np.array([matplotlib.colors.to_rgb(color) for color in COLORS])
    for matrix in matrices.values():
        seen = rgb @ np.transpose(matrix)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1) + 10 * np.eye(len(rgb))
        assert apart.min() > 0.1
    assert len(DASHES) == len(COLORS)


# Tables


def test_a_table_is_plain_text_wherever_it_goes() -> None:
    from rich.console import Console

    table = Table(title="[bold]t", headings=("a",), rows=(("[red]x|y",),))
    console = Console(width=40, record=True, file=__import__("io").StringIO())
    console.print(table.rich())
    assert "[red]x|y" in console.export_text()
    assert table.markdown().splitlines()[-1] == "| [red]x\\|y |"
