"""Figures of runs: their content, and errors for data that cannot be drawn."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from numpy.testing import assert_allclose

import slgh
from libraries import other_libraries, to_library
from slgh.paper.experiments.figures import Panel, curves, surfaces, trajectories
from slgh.paper.experiments.paper_table import with_interval
from slgh.parameters import Phase
from slgh.plotting.figures import RunCurves
from slgh.plotting.path import path_of, thinned
from slgh.plotting.style import (
    COLORS,
    DASHES,
    METHOD_COLORS,
    PHASE_COLORS,
    as_bytes,
    faint,
    lighter,
    looks,
    method_color,
    readable,
    style,
)
from slgh.plotting.table import Table
from slgh.space import Array, Boolean, Categorical, Float, Integer, Ordinal, Space

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
    assert {"f", "f smoothed, t = 1", "f smoothed, t = 0.5"} <= drawn
    (path,) = [at for at in line.lines if at.get_label() == "path $(x_k, F(x_k, t_k))$"]
    x, t = np.asarray(path.get_xdata()), path_of(result).thin(200).t
    exact = (x**2 + t**2) / 20 - np.exp(-4.5 * t**2) * np.cos(3 * x) + 1
    assert_allclose(np.asarray(path.get_ydata()), exact, atol=0.01)


def test_a_run_without_a_radius_is_drawn_as_well() -> None:
    result = slgh.minimize(ripples, [4.0], method="gd", grad=lambda x: x / 10, step=0.1, max_iter=20, history="x")
    assert {line.get_label() for line in slgh.plot(result, ripples).axes[0].lines} >= {"f"}


@pytest.mark.filterwarnings("error")
def test_a_run_without_a_feasible_point_is_drawn() -> None:
    nowhere = {"type": "ineq", "fun": lambda x: -1 - x @ x}
    result = slgh.minimize(lambda x: float(x @ x), [1.0, 2.0], constraints=nowhere, max_evals=40, seed=0)
    assert np.isinf(result.history["fun_best"]).all()
    assert len(slgh.plot(result).axes[0].lines) > 1


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_batch_is_drawn_with_a_band(d: int) -> None:
    def bowl(x: Any) -> Any:
        return np.sum(x**2, axis=-1)

    starts = np.random.default_rng(0).normal(size=(4, d))
    options: dict[str, Any] = {"method": "scale_free", "batched": True, "vectorized": True}
    result = slgh.minimize(bowl, starts, max_evals=200, seed=0, history="x", **options)
    figure = slgh.plot(result, bowl, vectorized=True)
    left = named(figure, "f")
    assert len(left.collections) == 1, "the band"
    raw, best = left.lines
    assert_allclose(raw.get_ydata(), np.median(result.history["fun"], axis=1))
    assert_allclose(best.get_ydata(), np.median(result.history["fun_best"], axis=1))


# Runs of "auto"


def ackley(x: Any) -> float:
    return float(-20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e)


@functools.cache
def run_auto(d: int) -> slgh.Result:
    """A run whose local searches and restarts go far beyond what its homotopy visits."""
    phases: tuple[Phase, ...] = ("landscape", "homotopy", "local_search", "restarts")
    return slgh.minimize(ackley, np.full(d, 5.0), max_evals=1000, seed=0, history="x", phases=phases)


@pytest.mark.parametrize("d", [1, 2])
def test_the_view_is_framed_on_start_homotopy_and_end(d: int) -> None:
    run = run_auto(d)
    ax = slgh.plot(run, ackley).axes[0]
    axes = [ax.get_xlim(), ax.get_ylim()][:d]
    homotopy = [run.history["x"][start:stop] for name, start, stop in run.phases if name == "homotopy"]
    shown = np.concatenate([[np.full(d, 5.0)], *homotopy, [run.x]])
    for i, (low, high) in enumerate(axes):
        assert low < shown[:, i].min()
        assert shown[:, i].max() < high
    side = np.ptp(shown, axis=0).max()
    assert max(high - low for low, high in axes) < 1.6 * side
    assert np.ptp(run.history["x"], axis=0).max() > 2 * side, "all points would need another view"


def test_the_path_is_broken_between_phases() -> None:
    run = run_auto(2)
    plane = slgh.plot(run, ackley).axes[0]
    names = [phase.name for phase in run.phases]
    assert {"homotopy", "local_search", "restarts"} == set(names)
    lines = [line for line in plane.lines if str(line.get_label()).removeprefix("_") in PHASE_COLORS]
    assert [str(line.get_label())[1:] for line in lines] == names, "one line per phase"
    for line, phase in zip(lines, run.phases, strict=True):
        assert line.get_color() == PHASE_COLORS[phase.name]
        x = run.history["x"][phase.start : phase.stop]
        drawn = np.transpose(np.asarray(line.get_data()))
        assert_allclose(drawn[0], x[0])
        assert all((x == point).all(axis=1).any() for point in drawn), "no point of another phase"
        if phase.name == "homotopy":
            assert_allclose(drawn, x)


def test_phases_are_shaded_over_the_evaluations() -> None:
    run = run_auto(2)
    figure = slgh.plot(run)
    left, right = figure.axes
    nfev = run.history["nfev"]
    names = [name for name, group in itertools.groupby(phase.name for phase in run.phases)]
    for ax in (left, right):
        assert [str(patch.get_label())[1:] for patch in ax.patches] == names, "restarts are one"
        ends = np.array([patch.get_extents().transformed(ax.transData.inverted()).intervalx for patch in ax.patches])
        assert_allclose(ends[1:, 0], ends[:-1, 1], err_msg="without gaps")
        assert_allclose([ends[0, 0], ends[-1, 1]], nfev[[0, -1]])
        first = next(phase for phase in run.phases if phase.name == "homotopy")
        assert_allclose(ends[names.index("homotopy")], nfev[[first.start - 1, first.stop - 1]])
        assert ax.get_xlabel() == "evaluations of f"
    best = left.lines[-1]
    assert best.get_linewidth() > 2 * max(line.get_linewidth() for line in left.lines[:-1])
    assert_allclose(np.asarray(best.get_ydata()), np.maximum(run.history["fun_best"], left.get_ylim()[0]))
    explained = {text.get_text() for text in figure.legends[0].get_texts()}
    assert explained == {"best value so far", "f in each step", "homotopy", "local search", "restarts"}


def test_a_run_with_a_large_budget_is_drawn() -> None:
    run = slgh.minimize(ackley, [5.0, 5.0], max_evals=1000, seed=0, history="x")
    assert "covariance" in {phase.name for phase in run.phases}
    plane = slgh.plot(run, ackley).axes[0]
    drawn = {str(line.get_label()).removeprefix("_") for line in plane.lines} & set(PHASE_COLORS)
    assert drawn == {phase.name for phase in run.phases}


def test_restarts_can_be_left_out() -> None:
    run = run_auto(2)
    path = path_of(run)
    before = path.without_restarts()
    first = next(phase for phase in run.phases if phase.name == "restarts")
    assert_allclose(before.iteration, [*range(first.start), run.nit])
    assert_allclose(path_of(run_himmelblau()).without_restarts().x, path_of(run_himmelblau()).x)
    numbers = before.phase_numbers()
    assert (np.diff(numbers) >= 0).all()
    assert len(set(numbers.tolist())) == run.phases.index(first) + 1, "one number per phase, and one for the end"


def test_local_searches_alone_are_framed_on_their_improvements() -> None:
    run = slgh.minimize(ackley, [5.0, 5.0], max_evals=200, seed=0, history="x", phases=("local_search",))
    path = path_of(run)
    better = path.improvements()
    assert (np.diff(better.fun) < 0).all()
    assert len(better.fun) < len(path.fun)
    assert_allclose(path.framed()[1:-1], better.x)


def test_a_run_of_gradients_is_drawn_over_its_iterations() -> None:
    run = slgh.minimize(HIMMELBLAU.smooth, HIMMELBLAU.x0, max_evals=200, seed=0, history="x")
    assert run.phases
    left = slgh.plot(run).axes[0]
    assert left.get_xlabel() == "iteration $k$"
    assert_allclose(np.asarray(left.lines[-1].get_xdata()), run.history["iteration"])


def test_pyplot_keeps_no_figure() -> None:
    """A notebook would show it a second time."""
    import matplotlib.pyplot as plt

    figure = slgh.plot(run_auto(2), ackley)
    assert plt.get_fignums() == []
    picture: Any = figure
    assert picture._repr_png_().startswith(b"\x89PNG")


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


def test_a_run_without_iterations_has_nothing_to_draw() -> None:
    result = slgh.minimize(np.sum, np.ones(3), max_evals=1, history="x")
    with pytest.raises(ValueError, match=r"has no iterations to draw.*max_evals.*Raise the limit"):
        slgh.plot(result)


SPACE: dict[str, Any] = {
    "rate": Float(1e-4, 1.0, log=True),
    "net": [Integer(1, 8), {"act": Categorical(["relu", "tanh"]), "units": Ordinal([16, 32])}],
    "bias": Boolean(),
    "weights": Array(2, -1.0, 1.0),
}


def cost(p: Any) -> float:
    misfit = float(np.log10(p["rate"]) + 2) ** 2 + (p["net"][0] - 3) ** 2 + np.sum((p["weights"] - 0.5) ** 2)
    return float(misfit + (p["net"][1]["act"] == "relu"))


@pytest.mark.parametrize("options", [{"max_evals": 60}, {"method": "zoslgh_r", "t1": 0.3, "step": 0.1, "max_iter": 9}])
def test_the_parameters_of_a_space_are_drawn_over_the_evaluations(options: dict[str, Any]) -> None:
    result = slgh.minimize(cost, SPACE, seed=0, history="x", **options)
    space, lowest = Space(SPACE), int(np.argmin(result.history["fun"]))
    figure = slgh.plot(result, SPACE)
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert list(panels) == space.names
    assert len(figure.axes) == len(panels) + 2, "and f and t"
    dots, line = panels["rate"].lines
    decoded = [space.decode(z) for z in result.history["x"]]
    assert_allclose(np.asarray(dots.get_ydata()), [p["rate"] for p in decoded])
    assert np.asarray(line.get_ydata())[-1] == decoded[lowest]["rate"]
    assert_allclose(np.asarray(line.get_xdata()), result.history["nfev"])
    assert panels["rate"].get_yscale() == "log"
    assert [label.get_text() for label in panels["net[1].act"].get_yticklabels()] == ["relu", "tanh"]
    assert len(panels["weights"].lines) == 4, "dots and a line per element"


def test_a_function_of_trees_cannot_be_drawn() -> None:
    result = slgh.minimize(cost, SPACE, max_evals=20, seed=0, history="x")
    with pytest.raises(TypeError, match="Pass the space in its place"):
        slgh.plot(result, cost)
    assert len(slgh.plot(result).axes) == 2
    with pytest.raises(ValueError, match=r"in the space that is drawn.* variables is 1; got one with 8\."):
        slgh.plot(result, {"a": Float(0, 1)})
    with pytest.raises(ValueError, match="got one without a search space"):
        slgh.plot(run_himmelblau(), SPACE)
    with pytest.raises(ValueError, match='Pass history="x"'):
        slgh.plot(slgh.minimize(cost, SPACE, max_evals=20, seed=0), SPACE)


def test_a_space_of_many_parameters_is_drawn_in_part() -> None:
    many = [Integer(1, 100 + i) for i in range(20)]
    result = slgh.minimize(lambda p: float(sum(p)), many, max_evals=40, seed=0, history="x")
    assert len(slgh.plot(result, many).axes) == 12 + 2


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


def test_every_method_has_a_color_of_its_own() -> None:
    rgb = np.array([matplotlib.colors.to_rgb(color) for color in METHOD_COLORS.values()])
    apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1) + 10 * np.eye(len(rgb))
    assert apart.min() > 0.15
    assert len(set(PHASE_COLORS.values())) == len(PHASE_COLORS)


@pytest.mark.parametrize(
    ("label", "method"),
    [("ZOGradOpt 0.5", "gradopt"), ("GD", "gd"), ("ZOSGD", "gd"), ("slgh", "auto"), ("cma-bipop", "cma_bipop")],
)
def test_labels_have_the_color_of_their_method(label: str, method: str) -> None:
    assert method_color(label) == METHOD_COLORS[method]


def test_lines_of_one_method_differ() -> None:
    labels = ["GD", "GradOpt 0.5", "GradOpt 0.8", "SLGH_r 0.995", "SLGH_r 0.999", "mine", "yours"]
    found = looks(labels)
    assert found[0][0] == METHOD_COLORS["gd"]
    assert found[3][0] == METHOD_COLORS["slgh_r"]
    assert len({color for color, _ in found}) == len({dash for _, dash in found[:6]}) + 1 == len(labels)


def test_lines_are_lighter_and_stronger_on_a_dark_background() -> None:
    blue = METHOD_COLORS["auto"]
    with style():
        assert (readable(blue), faint(0.5)) == (blue, 0.5)
    with style(dark=True):
        assert readable(blue) == lighter(blue, 0.3)
        assert 0.5 < faint(0.5) <= faint(0.9) == 1


# Tables


def test_a_table_is_plain_text_wherever_it_goes() -> None:
    from rich.console import Console

    table = Table(title="[bold]t", headings=("a",), rows=(("[red]x|y",),))
    console = Console(width=40, record=True, file=__import__("io").StringIO())
    console.print(table.rich(40))
    assert "[red]x|y" in console.export_text()
    assert table.markdown().splitlines()[-1] == "| [red]x\\|y |"


def test_a_table_that_is_too_wide_drops_optional_columns_instead_of_wrapping() -> None:
    from rich.console import Console

    row = ("SLGH_r", "1" * 30, "2" * 20, "match")
    table = Table(title="t", headings=("method", "x", "f", "verdict"), rows=(row,), optional=("x", "f"))
    kept = {80: row, 50: (row[0], *row[2:]), 35: (row[0], row[3])}
    for width, cells in kept.items():
        console = Console(width=width, file=io.StringIO())
        console.print(table.rich(width))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert tuple(next(line for line in lines if "SLGH_r" in line).split()) == cells
    assert "Too wide for this terminal: x; f" in " ".join(" ".join(lines).split())


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 3).map(sorted))
def test_an_interval_contains_its_median_as_printed(numbers: list[float]) -> None:
    low, median, high = numbers
    shown = [float(part.strip("[],")) for part in with_interval(median, low, high).split()]
    assert shown[1] <= shown[0] <= shown[2]
