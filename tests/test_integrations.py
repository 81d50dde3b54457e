"""Integrations use the public API, name their extra, and send the metrics of a run to trackers and notebooks."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slgh
from cases import fun, starts

FOLDER = Path(slgh.__file__).parent / "integrations"
ROOT = Path(__file__).parent.parent

LIBRARIES = {
    "tensorboard": ("tensorboard", "tensorboard"),
    "mlflow": ("mlflow", "mlflow"),
    "wandb": ("wandb", "wandb"),
    "notebook": ("IPython", "notebook"),
    "nevergrad": ("nevergrad", "nevergrad"),
    "optax": ("optax", "optax"),
    "optuna": ("optuna", "optuna"),
    "sklearn": ("sklearn", "sklearn"),
    "ray_tune": ("ray", "ray-tune"),
    "torch": ("torch", "torch"),
}
"""The library that a module of the folder imports, and the extra that installs it."""

ALLOWED = (
    "slgh.checks",
    "slgh.engine.interrupts",
    "slgh.integrations",
    "slgh.protocols",
    "slgh.schedules",
    "slgh.space",
)
"""Modules that an integration may import besides the exports of `slgh`."""

SHARED = {"__init__", "metrics", "radius"}
"""Modules that other modules of the folder use."""

METHOD: dict[str, Any] = {"method": "zoslgh_r", "t1": 0.5, "step": 0.1, "seed": 1, "vectorized": True}


def skip_without(library: str, extra: str) -> Any:
    """Return a library, or skip the test and name the extra."""
    return pytest.importorskip(library, reason=f'needs pip install "slgh[{extra}]"')


def slgh_imports(file: Path) -> set[str]:
    """Return the names that a file imports from slgh, as slgh.module or slgh.name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("slgh.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "slgh":
            names |= {f"slgh.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slgh."):
            names.add(str(node.module))
    return names


def test_integrations_import_the_public_api_only() -> None:
    for file in FOLDER.rglob("*.py"):
        for name in slgh_imports(file):
            public = name.removeprefix("slgh.") in slgh.__all__
            assert public or any(f"{name}.".startswith(f"{module}.") for module in ALLOWED), (file, name)


def test_every_integration_has_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in LIBRARIES.values()} <= set(extras)
    modules = {file.relative_to(FOLDER).parts[0].removesuffix(".py") for file in FOLDER.rglob("*.py")}
    adapters = modules - SHARED - {"scipy"}
    assert adapters == set(LIBRARIES)


@pytest.mark.parametrize("module", LIBRARIES)
def test_a_missing_library_is_an_error_that_names_the_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, extra = LIBRARIES[module]
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    adapter = f"slgh.integrations.{module}"
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{adapter}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=rf"pip install \"slgh\[{extra}\]\""):
        importlib.import_module(adapter)


class Recorded:
    """A tracker that keeps what it gets."""

    @staticmethod
    def callback(every: int = 1) -> Any:
        from slgh.integrations.metrics import MetricsCallback

        class Callback(MetricsCallback):
            rows: list[tuple[int, dict[str, float]]] = []  # noqa: RUF012 - one class per test

            def log(self, metrics: dict[str, float], step: int) -> None:
                self.rows.append((step, metrics))

        return Callback(every=every)


def test_metrics_are_those_of_the_history() -> None:
    tracker = Recorded.callback()
    result = slgh.minimize(fun, starts(1)[0], max_iter=20, callback=tracker, **METHOD)
    assert [step for step, _ in tracker.rows] == list(range(1, 21))
    for name in ("fun", "t", "fun_best", "nfev"):
        np.testing.assert_array_equal([metrics[name] for _, metrics in tracker.rows], result.history[name])


def test_each_nth_iteration_is_logged() -> None:
    tracker = Recorded.callback(every=6)
    slgh.minimize(fun, starts(1)[0], max_iter=20, callback=tracker, **METHOD)
    assert [step for step, _ in tracker.rows] == [6, 12, 18]
    with pytest.raises(ValueError, match="every"):
        Recorded.callback(every=0)


def test_a_batch_logs_its_lowest_values_and_its_largest_t() -> None:
    tracker = Recorded.callback()
    result = slgh.minimize(fun, starts(3), batched=True, max_iter=5, callback=tracker, **METHOD)
    last = tracker.rows[-1][1]
    assert last["fun_best"] == result.history["fun_best"][-1].min()
    assert last["t"] == result.history["t"][-1].max()


def test_values_that_are_not_finite_are_not_logged() -> None:
    tracker = Recorded.callback()
    slgh.minimize(lambda x: np.full(x.shape[:-1], np.nan), starts(1)[0], max_iter=3, callback=tracker, **METHOD)
    assert all(np.isfinite(list(metrics.values())).all() for _, metrics in tracker.rows)
    assert "fun" not in tracker.rows[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_metrics_of_other_libraries_are_numbers(library: str) -> None:
    from libraries import to_library

    tracker = Recorded.callback()
    x0 = to_library(starts(2), library)
    slgh.minimize(lambda x: (x**2).sum(-1), x0, batched=True, max_iter=3, callback=tracker, **METHOD)
    assert all(type(value) is float for _, metrics in tracker.rows for value in metrics.values())


def test_a_live_plot_updates_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("IPython", "notebook")
    skip_without("matplotlib", "plot")
    from slgh.integrations import notebook

    shown: list[Any] = []

    class Handle:
        def update(self, figure: Any) -> None:
            shown.append(figure)

    def display(figure: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(figure)
        return Handle()

    monkeypatch.setattr(notebook, "display", display)
    monkeypatch.setattr(notebook, "MAX_ROWS", 16)
    live = notebook.LivePlot(every_seconds=0, title="a run")
    live.update()
    assert shown == []
    slgh.minimize(fun, starts(1)[0], max_iter=3, callback=live, **METHOD)
    assert len(shown) == 2
    live.every_seconds = 1e9
    slgh.minimize(fun, starts(1)[0], max_iter=60, callback=live, **METHOD)
    live.update()
    assert len(shown) == 3
    assert 8 <= len(shown[-1].axes[0].lines[0].get_xdata()) <= 16
    assert shown[-1].get_suptitle() == "a run"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries that execute notebooks
def test_a_notebook_shows_one_picture() -> None:
    skip_without("ipykernel", "notebook")
    skip_without("matplotlib", "plot")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    source = """
import slgh
from slgh.integrations.notebook import LivePlot
live = LivePlot(every_seconds=0.2)
slgh.minimize(lambda x: (x**2).sum(), [1.0, 2.0], max_evals=300, seed=0, callback=live)
live.update()
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert ["image/png" in output.get("data", {}) for output in outputs] == [True]


@pytest.mark.heavy
def test_tensorboard_reads_what_the_callback_wrote(tmp_path: Path) -> None:
    skip_without("tensorboard", "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    from slgh.integrations.tensorboard import TensorBoardCallback

    with TensorBoardCallback(tmp_path, every=5) as callback:
        result = slgh.minimize(fun, starts(1)[0], max_iter=20, callback=callback, **METHOD)
    events = EventAccumulator(str(tmp_path)).Reload()
    rows = events.Tensors("slgh/fun_best")
    assert [row.step for row in rows] == [5, 10, 15, 20]
    values = [float(tensor_util.make_ndarray(row.tensor_proto)) for row in rows]
    np.testing.assert_allclose(values, result.history["fun_best"][4::5], rtol=1e-6)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # of MLflow and its dependencies
def test_mlflow_has_what_the_callback_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("mlflow", "mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    from slgh.integrations.mlflow import MLflowCallback

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        result = slgh.minimize(fun, starts(1)[0], max_iter=20, callback=MLflowCallback(every=5), **METHOD)
    rows = mlflow.MlflowClient().get_metric_history(run.info.run_id, "fun_best")
    assert [row.step for row in rows] == [5, 10, 15, 20]
    assert [row.value for row in rows] == result.history["fun_best"][4::5].tolist()


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # of wandb and its dependencies
def test_wandb_has_what_the_callback_logged(tmp_path: Path) -> None:
    wandb = skip_without("wandb", "wandb")
    from slgh.integrations.wandb import WandbCallback

    with wandb.init(mode="offline", dir=str(tmp_path), settings=wandb.Settings(silent=True)) as run:
        result = slgh.minimize(fun, starts(1)[0], max_iter=20, callback=WandbCallback(run, every=5), **METHOD)
    wandb.teardown()  # waits for the process that writes the file
    content = next(tmp_path.rglob("*.wandb")).read_bytes()
    for value in result.history["fun_best"][4::5].tolist():
        assert repr(value).encode() in content
