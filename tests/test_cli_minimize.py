"""`slgh minimize` and `probe`: refused input, output, ends of a run, and resuming."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

import slgh
from cases import find
from messages import error_message
from slgh.cli import app
from slgh.cli.errors import EXIT_CODES
from slgh.cli.output import console
from slgh.cli.probe import with_error
from slgh.cli.report import show_point
from slgh.cli.run import choose_history
from slgh.cli.wording import in_options
from slgh.engine import checkpoint
from slgh.engine.termination import read_limits
from slgh.parameters import History
from slgh.plotting import plots
from slgh.smoothing.closed_form import UnsmoothedFormula
from slgh.smoothing.formula import read_formula

MINE = """
import time

import numpy as np

NUMBER = 3


def sphere(x):
    return float(np.sum((x - 1.0) ** 2))


def sphere_grad(x):
    return 2 * (x - 1.0)


def spheres(x):
    return np.sum((x - 1.0) ** 2, axis=-1)


def term(x, i):
    return float(np.sum((x - i / 10) ** 2))


def term_grad(x, i):
    return 2 * (x - i / 10)


def slow(x):
    time.sleep(0.001)
    return float(np.sum(x**2 - np.cos(9 * x)))


def fails(x):
    raise RuntimeError("the model\\nbroke")


def fails_far_away(x):
    if abs(x[0]) > 2.5:
        raise RuntimeError("far away")
    return float(x[0] ** 2)


def nothing(x):
    return float("nan")


def words(x):
    return "one"


def of_two(x, y):
    return x


def talks(x):
    print("now at", x)
    return float(x @ x)


asked = []


def remembers(x):
    asked.append(float(x[0]))
    return float((x[0] - 1) ** 2)


class Form:
    def value(self, x, t):
        raise RuntimeError("the form broke")

    grad = dt = trace = value


form = Form()
"""

BROKE = MINE.splitlines().index('    raise RuntimeError("the model\\nbroke")') + 1
"""Line that raises."""

SEED = ["--seed", "7"]
QUICK = ["--max-evals", "200", *SEED]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Current folder with the user's own code."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("import no_such_library\n")
    (tmp_path / "unreadable.py").write_text("def f(x:\n")
    (tmp_path / "script.py").write_text("import sys\n\nsys.exit('bye')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "width", 300)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("mine", "broken", "script"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def run(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, list(arguments), **options)


def minimize(*arguments: str) -> dict[str, Any]:
    """Return the JSON of a run that must end as planned."""
    result = run("minimize", *arguments, "--json", "-")
    assert result.exit_code in (0, 3), result.output
    return cast(dict[str, Any], json.loads(result.stdout))


BAD = {
    "nothing": ([], "Pass either a formula"),
    "empty formula": (["", "--x0", "1"], "FORMULA is not an expression"),
    "unknown function": (["foo(x)", "--x0", "1"], "the functions are exp, log"),
    "a function by another name": (["x + ln(y)", "--x0", "1,1"], "FORMULA: write log for ln; got 'ln(y)'."),
    "code injection": (["__import__('os').system('touch hacked')", "--x0", "1"], "FORMULA: functions are written"),
    "injection by a plain call": (["open('hacked', 'w')", "--x0", "1"], "the functions are"),
    "attribute access": (["x.real + ().__class__", "--x0", "1"], "Attribute is not allowed"),
    "lambda": (["(lambda: x)()", "--x0", "1"], "functions are written by their plain names"),
    "a statement": (["import os", "--x0", "1"], "is not an expression"),
    "unbalanced parenthesis": (["(x + 1", "--x0", "1"], "'(' was never closed"),
    "a caret": (["x^2", "--x0", "1"], "powers are written **"),
    "a constant": (["3 + 4", "--x0", "1"], "must have a variable"),
    "division by zero": (["1/0*x", "--x0", "1"], "division by zero"),
    "a tower of powers": (["x + 10**10**10", "--x0", "1"], "exponents must be at most 64"),
    "a formula that is too long": (["+".join(["x"] * 20_000), "--x0", "1"], "at most 20000 characters"),
    "a formula nested too deep": (["sin(" * 70 + "x" + ")" * 70, "--x0", "1"], "nested at most 60 deep"),
    "a subscript out of reach": (["sum(x[i+1] for i in range(d))", "--x0", "1,2"], "uses variable x[2]"),
    "a misspelled problem": (["rosenbrok"], "Did you mean rosenbrock?"),
    "x0 missing": (
        ["x**2 + y**2"],
        "--x0 is missing: x0 is the start of x, y, in this order. Pass for example --x0 1,1",
    ),
    "x0 missing for a function": (["--fun", "mine:sphere"], "--x0 is missing"),
    "x0 too short": (["x**2 + y**2", "--x0", "1"], "must have 2 numbers, got 1: x0 is the start of x, y"),
    "x0 too short for a sum": (
        ["sum(x[i]**2 for i in range(5))", "--x0", "3"],
        "the formula needs 5 variables, got 1. Pass 5 numbers, or one and --d 5.",
    ),
    "x0 too short for a sum without a closed form": (
        ["sum(log(1 + x[i+1]**2) for i in range(5))", "--x0", "3,3"],
        "the formula needs 6 variables, got 2",
    ),
    "x0 too long": (["x**2", "--x0", "1,2"], "must have 1 number, got 2"),
    "x0 of words": (["x**2", "--x0", "one"], "--x0 must be numbers separated by commas"),
    "x0 empty": (["x**2", "--x0", ""], "--x0 must be numbers"),
    "x0 nan": (["x**2", "--x0", "nan"], "--x0 must be finite"),
    "x0 infinite": (["x**2", "--x0", "1e999"], "--x0 must be finite"),
    "d contradicts": (["x + y", "--x0", "1", "--d", "3"], "--d must be 2 here"),
    "d zero": (["sum(x[i]**2 for i in range(d))", "--x0", "1", "--d", "0"], "--d must be an integer >= 1"),
    "d that fills the memory": (
        ["sum(x[i]**2 for i in range(d))", "--x0", "1", "--d", "1000000000000000"],
        "--d must be at most 100000000, got 1000000000000000",
    ),
    "a problem of other size": (["himmelblau", "--d", "3"], "himmelblau has 2 variables"),
    "unknown method": (["x**2", "--x0", "1", "--method", "slgr_r"], "Did you mean slgh_r?"),
    "unknown parameter": (["x**2", "--x0", "1", "--set", "momentum=1"], "`momentum` is not a parameter of 'auto'"),
    "unknown part": (["x**2", "--x0", "1", "--set", "oracle=evil:f"], "--set oracle must be one of 'forward'"),
    "set without a value": (["x**2", "--x0", "1", "--set", "alpha"], "--set must be NAME=VALUE"),
    "set of an option": (
        ["x**2", "--x0", "1", "--set", "max_evals=10"],
        "max_evals is not a hyperparameter. Pass --max-evals.",
    ),
    "set of what is not here": (["x**2", "--x0", "1", "--set", "callback=f"], "The command line does not support it"),
    "set twice": (["x**2", "--x0", "1", "--t1", "1", "--set", "t1=2"], "t1 is given twice"),
    "gamma above 1": (
        ["x**2", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "1", "--gamma", "1.5"],
        "--gamma must lie in (0, 1), got --gamma 1.5",
    ),
    "gamma of words": (
        ["x**2", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "1", "--gamma", "half"],
        "--gamma must be a real number",
    ),
    "a file as folder": (["x**2", "--x0", "1", "--run", "mine.py"], "mine.py cannot be written: it is a file. Name a"),
    "t1 of words": (["x**2", "--x0", "1", "--t1", "big"], "--t1 must be a number, got 'big'."),
    "a count of words": (["x**2", "--x0", "1", "--max-evals", "abc"], "--max-evals must be an integer, got 'abc'."),
    "half a count": (["x**2", "--x0", "1", "--samples", "1.5"], "--samples must be an integer, got '1.5'."),
    "an infinite count": (["x**2", "--x0", "1", "--max-iter", "inf"], "--max-iter must be an integer, got 'inf'."),
    "a seed that is no integer": (["x**2", "--x0", "1", "--seed", "1e4"], "--seed must be an integer, got '1e4'."),
    "negative step": (
        ["x**2", "--x0", "1", "--method", "gd", "--step", "-1"],
        "--step must be a finite number above 0, got --step -1",
    ),
    "step missing": (["x**2", "--x0", "1", "--method", "slgh_r", "--t1", "1"], "Pass --step NUMBER (or --step theory"),
    "step missing for a swapped update": (
        ["x**2", "--x0", "1", "--set", "update=adam"],
        "`auto` needs --step, without a default because the right value depends on the function. Pass --step NUMBER.",
    ),
    "parameters of the paper missing": (
        ["rosenbrock", "--method", "slgh_r"],
        "For rosenbrock the paper uses --t1 1.5 --step 0.0001 --max-iter 20000.",
    ),
    "one parameter of the paper missing": (
        ["hole", "--method", "zoslgh_r", "--t1", "5", "--max-evals", "10"],
        "For hole the paper uses --step 0.01 --samples 10.",
    ),
    "parameters of another problem missing": (
        ["wells", "--method", "slgh_r", "--max-iter", "10"],
        "For wells slgh problems lists --t1 2 --step 0.1.",
    ),
    "theory without L1": (
        ["x**2", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "theory"],
        "pass --set L1=NUMBER",
    ),
    "bounds without a colon": (["x**2", "--x0", "1", "--bounds", "5"], "--bounds must be LOW:HIGH"),
    "bounds with a comma": (["x**2", "--x0", "1", "--bounds", "-5,5"], "got '-5,5'. Did you mean --bounds -5:5?"),
    "too many bounds": (["x**2", "--x0", "1", "--bounds", "0:2,0:2"], "one per variable (expected 1); got 2"),
    "bounds the wrong way round": (
        ["x**2", "--x0", "1", "--bounds", "2:0"],
        "--bounds must have low <= high, got 2:0 for x.",
    ),
    "x0 missing and a bound infinite": (
        ["x**2 + y", "--bounds", "0:2,0:"],
        "Pass for example --x0 1,1, or finite --bounds, whose middle is the start.",
    ),
    "x0 missing and too many bounds": (["x**2 + y", "--bounds", "0:2,0:2,0:2"], "per variable (expected 2); got 3"),
    "x0 missing and no number of variables": (["--fun", "mine:sphere", "--bounds", "0:2"], "--d or --x0 is missing"),
    "x0 missing and bounds the wrong way round": (["x**2 + y", "--bounds", "0:2,3:1"], "got 3:1 for y."),
    "x0 outside the bounds": (
        ["x**2 + y", "--x0", "1,3", "--bounds", "0:2"],
        "--x0 must lie within --bounds, 0:2 for y; got 3.",
    ),
    "x0 outside a vector's bounds": (["ackley", "--bounds", "0:6,0:2"], "0:2 for x[1]; got 5."),
    "no evaluations": (["x**2", "--x0", "1", "--max-evals", "0"], "--max-evals must be an integer >= 1"),
    "negative seconds": (["x**2", "--x0", "1", "--max-seconds", "-1"], "--max-seconds must be a finite number >= 0"),
    "negative seed": (["x**2", "--x0", "1", "--seed", "-1"], "--seed must be an integer >= 0, got --seed -1"),
    "a target that is no number": (["x**2", "--x0", "1", "--target", "nan"], "--target must be a finite number"),
    "negative time between saves": (
        ["x**2", "--x0", "1", "--run", "kept", "--save-every", "-1"],
        "--save-every must be a finite number >= 0",
    ),
    "unknown handling": (["x**2", "--x0", "1", "--on-nonfinite", "ignore"], "--on-nonfinite must be one of 'reject'"),
    "workers for a formula": (["x**2", "--x0", "1", "--workers", "2"], "--workers is for a plain function"),
    "a negative tolerance": (["x**2", "--x0", "1", "--ftol", "-1"], "--ftol must be a finite number >= 0"),
    "a time limit for a formula": (
        ["x**2", "--x0", "1", "--max-seconds-per-eval", "1"],
        "--max-seconds-per-eval is for a plain function",
    ),
    "a time limit without processes": (
        ["--fun", "mine:sphere", "--x0", "1", "--max-seconds-per-eval", "1"],
        "Pass --workers their number",
    ),
    "a cache for a closed form": (["x**2", "--x0", "1", "--cache"], "--cache is for functions"),
    "terms of a formula": (["x**2", "--x0", "1", "--terms", "3"], "--terms is for --fun"),
    "formula and function": (["x**2", "--x0", "1", "--fun", "mine:sphere"], "got both"),
    "gradient of a formula": (["x**2", "--x0", "1", "--grad", "mine:sphere_grad"], "--grad is for --fun"),
    "fallback for a function": (
        ["--fun", "mine:sphere", "--x0", "1", "--fallback", "sampling"],
        "--fallback is for formulas",
    ),
    "no colon": (["--fun", "sphere", "--x0", "1"], "--fun must be module:function or file.py:function"),
    "no such module": (["--fun", "yours:sphere", "--x0", "1"], "there is no module 'yours'"),
    "no such file": (["--fun", "yours.py:sphere", "--x0", "1"], "there is no file"),
    "no such function": (["--fun", "mine:spere", "--x0", "1"], "has no function 'spere'. Did you mean sphere?"),
    "not a function": (["--fun", "mine:NUMBER", "--x0", "1"], "must be a function, got int"),
    "a function of words": (["--fun", "mine:words", "--x0", "1"], "--fun must return real numbers"),
    "no gradient": (
        ["--fun", "mine:sphere", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "1"],
        "Pass --grad, or use --method zoslgh_r",
    ),
    "stochastic method without terms": (
        ["--fun", "mine:sphere", "--grad", "mine:sphere_grad", "--x0", "1", "--method", "sgd", "--step", "1"],
        "pass --terms",
    ),
    "no closed form": (
        ["log(1 + x**2)", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "1"],
        "Pass --fallback quadrature",
    ),
    "no homotopy at all": (
        ["exp(x**2)", "--x0", "1", "--method", "slgh_r", "--t1", "1", "--step", "1"],
        "FORMULA cannot be smoothed",
    ),
    "unknown fallback": (["log(1 + x**2)", "--x0", "1", "--fallback", "magic"], "--fallback must be one of"),
    "json in no folder": (["x**2", "--x0", "1", "--json", "no/where.json"], "--json: no/where.json cannot be written"),
    "json is a folder": (["x**2", "--x0", "1", "--json", "."], "it is a folder"),
    "plot in no folder": (["x**2", "--x0", "1", "--plot", "no/where.png"], "--plot: no/where.png cannot be written"),
    "plot of no kind": (["x**2", "--x0", "1", "--plot", "path.gif"], "--plot must end in .png, .svg, .pdf or .html"),
    "plot of a formula": (["--plot", "x**2", "--x0", "1"], "--plot must end in .png, .svg, .pdf or .html, got 'x**2'"),
    "plot that exists": (["x**2", "--x0", "1", "--plot", "old.png"], "--plot: old.png exists. Pass --overwrite"),
    "history for nobody": (["x**2", "--x0", "1", "--history"], "--history needs a file to write to. Pass --json FILE."),
    "unknown option": (["x**2", "--x0", "1", "--metod", "gd"], "No such option: --metod"),
    "two formulas": (["x**2", "x**3", "--x0", "1"], "Got unexpected extra argument"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_remedy(name: str, folder: Path) -> None:
    arguments, fragment = BAD[name]
    (folder / "old.png").touch()
    before = set(folder.iterdir())
    result = run("minimize", *arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert fragment in error_message(result.stderr)
    assert {p for p in folder.iterdir() if p.name != "__pycache__"} == before, "nothing was run, drawn or written"


METHODS = {
    "auto": ["x**4 - 3*x**2 + x", "--x0", "2"],
    "scale_free": ["x**4 - 3*x**2 + x", "--x0", "2"],
    "gd": ["x**4 - 3*x**2 + x", "--x0", "2", "--step", "0.01"],
    "sgd": ["--fun", "mine:term", "--grad", "mine:term_grad", "--terms", "10", "--x0", "0,0", "--step", "0.1"],
    "zosgd": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.1", "--step", "0.01"],
    "zoadamm": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.1", "--step", "0.01"],
    "zosvrg": ["--fun", "mine:term", "--terms", "10", "--x0", "0,0", "--t1", "0.1", "--step", "0.01"],
    "spsa": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.1", "--step", "0.1"],
    "openai_es": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.1", "--step", "0.1"],
    "power_gs": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.5", "--step", "0.1", "--set", "sharpness=1"],
    "power_hp": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.5", "--step", "0.1", "--set", "sharpness=1"],
    "zopower_hp": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.5", "--set", "sharpness=1"],
    "dgs": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.5", "--step", "0.1"],
    "adadgs": ["x**2 + y**2", "--x0", "2,1", "--t1", "0.5", "--set", "longest=3"],
    "gradopt": ["x**4 - 3*x**2 + x", "--x0", "2", "--t1", "1", "--step", "0.01"],
    "zogradopt": ["hole", "--t1", "5", "--step", "0.01"],
    "gradopt_hazan": ["x**2 + y**2", "--x0", "2,1", "--t1", "1", "--step", "0.01"],
    "slgh_r": ["x**4 - 3*x**2 + x", "--x0", "2", "--t1", "1", "--step", "0.01"],
    "slgh_d": ["x**4 - 3*x**2 + x", "--x0", "2", "--t1", "1", "--step", "0.01", "--eta", "0.01"],
    "zoslgh_r": ["ackley", "--t1", "1", "--step", "0.01"],
    "zoslgh_d": ["hole", "--t1", "5", "--step", "0.01", "--eta", "0.01", "--floor", "0.02"],
}


@pytest.mark.parametrize("method", slgh.METHODS)
def test_every_method_runs(method: str) -> None:
    found = minimize(*METHODS[method], "--method", method, "--max-iter", "50", "--seed", "1")
    assert found["method"]["name"] == method
    assert found["nit"] > 0
    assert found["exit_code"] == 0
    asked = {
        "gd",
        "sgd",
        "gradopt",
        "power_hp",
        "slgh_r",
        "slgh_d",
        "auto",
        "scale_free",
    }  # the others receive values only
    assert (found["njev"] > 0) == (method in asked)


def minimize_in_python(fun: Any, x0: Any, **options: Any) -> Any:
    return slgh.minimize(fun, x0, seed=3, **options)


ROSENBROCK = "100*(y - x**2)**2 + (1 - x)**2"
SAME: dict[str, tuple[str, Any]] = {
    "auto on a closed form": (
        f"'{ROSENBROCK}' --x0 -3,2 --max-evals 300",
        lambda: minimize_in_python(slgh.smooth(ROSENBROCK), [-3.0, 2.0], max_evals=300),
    ),
    "slgh_r": (
        f"'{ROSENBROCK}' --x0=-3,2 --method slgh_r --t1 1.5 --gamma 0.9 --step 1e-4 --max-iter 99",
        lambda: minimize_in_python(
            slgh.smooth(ROSENBROCK), [-3.0, 2.0], method="slgh_r", t1=1.5, gamma=0.9, step=1e-4, max_iter=99
        ),
    ),
    "values of a formula": (
        "'x**2 + abs(y)' --x0 1,2 --method zoslgh_r --t1 1 --step 1e-2 --max-iter 99 --set update=adam --samples 4 "
        "--bounds -3:3,0:",
        lambda: minimize_in_python(
            slgh.smooth("x**2 + abs(y)").fun,
            [1.0, 2.0],
            vectorized=True,
            method="zoslgh_r",
            t1=1.0,
            step=0.01,
            max_iter=99,
            update="adam",
            samples=4,
            bounds=[(-3, 3), (0, None)],
        ),
    ),
    "values of a formula without a closed form": (
        "'log(1 + x**2)' --x0 3",
        lambda: minimize_in_python(lambda x: np.log(x[..., 0] ** 2 + 1), [3.0], vectorized=True),
    ),
    "a formula by quadrature": (
        "'log(1 + x**2)' --x0 3 --fallback quadrature --max-evals 100",
        lambda: minimize_in_python(slgh.smooth("log(1 + x**2)", fallback="quadrature"), [3.0], max_evals=100),
    ),
    "a problem": (
        "rosenbrock --d 4 --max-evals 300",
        lambda: minimize_in_python(slgh.problems.rosenbrock(4).smooth, slgh.problems.rosenbrock(4).x0, max_evals=300),
    ),
    "a Python function": (
        "--fun mine:sphere --x0 0 --d 3 --target 1e-3",
        lambda: minimize_in_python(lambda x: float(np.sum((x - 1.0) ** 2)), np.zeros(3), target=1e-3),
    ),
    "a file's function, vectorized, with its gradient": (
        "--fun mine.py:spheres --grad mine.py:sphere_grad --vectorized --x0 0,0",
        lambda: minimize_in_python(
            lambda x: np.sum((x - 1.0) ** 2, axis=-1), np.zeros(2), grad=lambda x: 2 * (x - 1.0), vectorized=True
        ),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_json_is_what_the_library_returns(name: str) -> None:
    arguments, library = SAME[name]
    found, expected = minimize(*shlex.split(arguments), "--seed", "3", "--history"), library()
    for entry in ("x", "fun", "x_best", "fun_best", "xhat", "t", "nit", "nfev", "njev", "nrejected", "seed", "success"):
        assert found[entry] == np.asarray(expected[entry]).tolist(), entry
    assert found["status"] == expected.status.name
    assert found["message"] == expected.message
    assert found["history"]["t"] == expected.history["t"].tolist()


def test_the_block_says_what_was_chosen_what_it_cost_and_why_it_stopped() -> None:
    result = run("minimize", "x**4 - 3*x**2 + x", "--x0", "2", "--method", "scale_free", *QUICK)
    assert result.exit_code == 0
    block = {line.split()[0]: line for line in result.stdout.splitlines() if line[:1].strip()}
    assert list(block) == ["minimize", "method", "f", "x", "t", "cost", "status", "seed", "again"]
    assert "formula in x; closed form" in block["minimize"]
    assert "scale_free = closed_form(samples=1) x budget(t1=2, fall=" in block["method"]
    assert "from 6 at x0" in block["f"]
    assert "101 evaluations, 99 gradients, 99 iterations" in block["cost"]
    assert "completed: The planned iterations were completed." in block["status"]
    assert "Chosen" not in block["status"]
    assert block["seed"].split()[1] == "7"
    again = "slgh minimize 'x**4 - 3*x**2 + x' --x0 2 --method scale_free --max-evals 200 --seed 7"
    assert block["again"].endswith(again)


def test_the_block_says_what_auto_saw_and_did() -> None:
    wavy = ["sum(x[i]**2 - 10*cos(2*pi*x[i]) for i in range(d))", "--x0", "3.3", "--d", "4", "--seed", "1"]
    rugged = run("minimize", *wavy, "--set", "oracle=diagonal_scaling", "--max-evals", "1500").stdout
    assert "looked" not in rugged, "a swapped part is no portfolio"
    smooth = run("minimize", "(x - 1)**2 + y**2", "--x0", "3,2", "--max-evals", "900").stdout
    assert re.search(
        r"^status +completed: The planned iterations were completed. f looked smooth: ", smooth, re.MULTILINE
    )
    assert "local search" in smooth
    local = run("minimize", "(x - 1)**2 + y**2", "--x0", "3,2", *QUICK, "--set", "phases=local_search").stdout
    assert re.search(r"^status +completed: .* 1 local search\.$", local, re.MULTILINE)
    assert not re.search(r"^t ", local, re.MULTILINE), "there was no t"
    assert "t1=2.54951" in local, "the first t of a homotopy"


def test_counts_may_be_written_with_an_exponent() -> None:
    found = minimize("ackley", "--d", "1e1", "--max-evals", "3e2", "--max-iter", "1e2", "--samples", "2.0", *SEED)
    assert (found["d"], found["method"]["oracle"]["samples"]) == (10, 2)
    plain = minimize("ackley", "--d", "10", "--max-evals", "300", "--max-iter", "100", "--samples", "2", *SEED)
    assert found["x"] == plain["x"]


def test_points_are_shown_whole_up_to_twenty_numbers() -> None:
    names = tuple(f"x{i}" for i in range(7))
    assert show_point(np.arange(7.0), names) == ", ".join(f"x{i} = {i}" for i in range(7))
    assert show_point(np.arange(20.0), ()) == ", ".join(map(str, range(20)))
    assert show_point(np.arange(21.0), ()) == "0, 1, 2, 3, ..., 19, 20  (--quiet or --json FILE gives all 21)"


def told(*arguments: str, label: str) -> list[str]:
    """What the block says under a label."""
    lines = run("minimize", *arguments).stdout.splitlines()
    return [line.removeprefix(label).strip() for line in lines if line.split(" ")[0] == label]


@pytest.mark.slow
def test_what_was_assumed_is_noted() -> None:
    scale = "t1 = 1 is a guess, since x0 = 0 gives no scale. Pass --t1 or --bounds."
    budget = "--max-evals 1400 is the default for 2 variables."
    zero, limited = ["(x - 1)**2 + y**2", "--x0", "0,0"], ["--max-evals", "50"]
    assert told(*zero, label="note") == [scale, budget]
    assert told(*zero, *limited, label="note") == [scale]
    assert told(*zero, *limited, "--t1", "2", label="note") == []
    assert told(*zero, *limited, "--bounds", "-1:1", label="note") == []
    assert told("x**2", "--x0", "1", "--max-seconds", "5", label="note") == [
        "--max-evals 1200 is the default for 1 variable."
    ]
    descent = ["x**2", "--x0", "0", "--method", "gd", "--step", "0.1"]
    assert told(*descent, label="note") == ["--max-iter 10000 is the default."]
    assert told(*descent, "--max-iter", "5", label="note") == []


def test_a_run_that_diverged_is_told_to_take_a_smaller_step() -> None:
    advice = "A smaller --step may help."
    (diverged,) = told("x**2", "--x0", "1", "--method", "gd", "--step", "1e9", label="status")
    assert diverged.startswith("nonfinite")
    assert diverged.endswith(advice)
    (elsewhere,) = told(
        "--fun", "mine:nothing", "--x0", "1", "--method", "zosgd", "--t1", "1", "--step", "1", label="status"
    )
    assert elsewhere.startswith("nonfinite")
    assert advice not in elsewhere
    (planned,) = told("x**2", "--x0", "1", "--method", "gd", "--step", "10", "--max-iter", "9", label="status")
    assert advice not in planned


def test_the_last_command_repeats_a_run_whose_seed_was_drawn() -> None:
    first = minimize("ackley", "--d", "3", "--max-evals", "100", "--quiet")
    again = shlex.split(first["repeat"])
    assert again[:2] == ["slgh", "minimize"]
    assert "--quiet" not in again
    second = minimize(*again[2:])
    assert (second["x"], second["seed"]) == (first["x"], first["seed"])


def test_two_runs_without_a_seed_differ() -> None:
    seeds = {minimize("ackley", "--max-evals", "50")["seed"] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("problem", "x0"),
    [
        (["x**4 - 3*x**2 + x*y + y**2", "--bounds", "-3:2"], [-0.5, -0.5]),
        (["x**4 - 3*x**2 + x*y + y**2", "--bounds", "-3:2,0:1"], [-0.5, 0.5]),
        (["sum(x[i]**2 for i in range(d))", "--bounds", "-3:2,0:1,0:1"], [-0.5, 0.5, 0.5]),
        (["--fun", "mine:sphere", "--bounds", "-3:2,0:1"], [-0.5, 0.5]),
        (["--fun", "mine:sphere", "--bounds", "-3:2", "--d", "3"], [-0.5] * 3),
        (["ackley", "--bounds", "-9:6"], [5.0, 5.0]),
    ],
)
def test_without_x0_the_start_is_the_middle_of_the_bounds(problem: list[str], x0: list[float]) -> None:
    options = ["--max-evals", "40", "--seed", "1"]
    found = minimize(*problem, *options)
    assert found["x0"] == x0
    given = minimize(*problem, "--x0", ",".join(map(str, x0)), *options)
    assert (found["x"], found["fun"]) == (given["x"], given["fun"])


def test_a_formula_may_begin_with_a_minus_and_a_start_have_spaces() -> None:
    found = minimize("-cos(x) - cos(y)", "--x0", "-1", "2", *QUICK)
    assert found["x0"] == [-1.0, 2.0]
    assert found["fun"] == pytest.approx(-2, abs=1e-6)
    quiet = run("minimize", "--x0", "-1 2", *QUICK, "--quiet", "--", "-cos(x) - cos(y)")
    assert [float(word) for word in quiet.stdout.split()] == [found["fun"], *found["x"]]


def test_gradient_descent_needs_no_closed_form() -> None:
    found = minimize("log(1 + x**2)", "--x0", "1", "--method", "gd", "--step", "0.1", "--max-iter", "1")
    assert found["x"] == [1 - 0.1 * 1.0]  # the derivative at 1 is 2x/(1 + x^2) = 1


def test_values_and_gradients_of_any_formula_agree_with_its_closed_form() -> None:
    text = "sum(x[i]**2*cos(x[i+1]) + i*x[i] for i in range(d-1)) + 3*prod(cos(x[i]) for i in range(d)) - x[0]"
    x = np.random.default_rng(0).normal(size=(5, 4))
    plain, F = UnsmoothedFormula(read_formula(text, 4, None)), slgh.smooth(text, d=4)
    np.testing.assert_allclose(plain.fun(x), F.fun(x), rtol=1e-12)
    np.testing.assert_allclose(plain.grad(x), F.grad(x, np.zeros(5)), rtol=1e-12)


def test_quiet_is_one_line_in_full_precision(folder: Path) -> None:
    result = run("minimize", "x**2 + (y - 0.1)**2", "--x0", "1,1", "--seed", "7", "--max-evals", "200", "--quiet")
    expected = minimize("x**2 + (y - 0.1)**2", "--x0", "1,1", *QUICK)
    assert [float(word) for word in result.stdout.split()] == [expected["fun"], *expected["x"]]
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert not (folder / "slgh-path.png").exists()


def test_what_the_users_function_prints_does_not_come_between_the_figures() -> None:
    arguments = ["minimize", "--fun", "mine:talks", "--x0", "1", "--max-evals", "20"]
    result = run(*arguments, "--json", "-")
    assert json.loads(result.stdout)["d"] == 1
    assert "now at" in result.stderr
    assert len(run(*arguments, "--quiet").stdout.split()) == 2


def test_values_that_are_not_finite_are_null_in_json() -> None:
    result = run("minimize", "--fun", "mine:nothing", "--x0", "1", *QUICK, "--json", "-")
    assert "NaN" not in result.stdout
    assert json.loads(result.stdout)["fun"] is None


def test_exit_codes() -> None:
    descent = ["x**2", "--x0", "1", "--method", "zosgd", "--t1", "0.1", "--step", "0.01"]
    assert run("minimize", *descent, "--max-iter", "10").exit_code == 0
    assert run("minimize", *descent, "--max-evals", "10").exit_code == 3
    assert run("minimize", *descent, "--max-seconds", "0").exit_code == 3
    assert run("minimize", *descent, "--target", "2").exit_code == 0
    assert run("minimize", "--fun", "mine:nothing", "--x0", "1").exit_code == 4
    assert run("minimize", "log(x)", "--x0", "-1", "--on-nonfinite", "raise").exit_code == 4
    assert set(EXIT_CODES) == {0, 1, 2, 3, 4, 130, 141}
    text = run("minimize", "--help").stdout
    assert all(meaning in text for meaning in EXIT_CODES.values())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["mine:fails"], f"RuntimeError in mine.py:{BROKE}: the model broke. Raised after 0 complete iterations."),
        (["mine.py:fails"], f"RuntimeError in mine.py:{BROKE}: the model broke."),
        (["mine:of_two"], "TypeError in the call of mine:of_two as f(x): of_two() missing 1 required"),
        (["broken:f"], "ModuleNotFoundError in broken.py:1: No module named 'no_such_library'."),
        (["unreadable.py:f"], "SyntaxError in unreadable.py:1: '(' was never closed.\n"),
        (["script:f"], "SystemExit in script.py:3: bye."),
    ],
)
def test_an_exception_in_the_users_code_is_told_with_its_place(arguments: list[str], line: str) -> None:
    result = run("minimize", "--fun", *arguments, "--x0", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {line}")
    assert result.stderr.endswith("\ntip: Pass --debug to see the traceback.\n")
    assert error_message(result.stderr)
    debugged = run("minimize", "--fun", *arguments, "--x0", "1", "--debug")
    assert debugged.exit_code == 1
    assert "Traceback" in debugged.stderr


@pytest.mark.parametrize("text", ["list index out of range", "`x` has no index 3"])
def test_an_internal_error_is_not_reported_as_bad_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The class of the error decides, not its wording."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError(text)

    monkeypatch.setattr(slgh, "minimize", broken)
    result = run("minimize", "x**2", "--x0", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: internal error. ValueError: {text}.\ntip: Please report it.")


def test_debug_shows_the_traceback_of_bad_input_too() -> None:
    result = run("minimize", "x**", "--x0", "1", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "error: FORMULA is not an expression" in result.stderr


# --- pictures


def test_all_iterates_are_kept_for_the_picture_where_they_fit_into_memory() -> None:
    def choose(d: int, *, planned: bool, path: bool = True, **given: Any) -> History:
        none = dict.fromkeys(("max_evals", "max_iter", "max_seconds", "target"))
        return choose_history(d, read_limits(d, planned=planned, **none | given), path=path)

    assert choose(2, planned=False) == "x"  # 10,000 iterations
    assert choose(2, planned=True) == "x"
    assert choose(2, planned=False, path=False) == 1000
    assert choose(1001, planned=True, max_iter=10) == 1000
    assert choose(2, planned=False, max_iter=10_000_000) == 1000
    assert choose(2, planned=False, max_seconds=1.0) == 1000


def test_nothing_is_drawn_by_default(folder: Path) -> None:
    result = run("minimize", "x**2", "--x0", "2", "--max-evals", "100")
    assert result.exit_code == 0
    assert "drawn" not in result.stdout
    assert not list(folder.glob("*.png"))


@pytest.mark.slow
def test_a_picture_is_replaced_only_by_overwrite(folder: Path) -> None:
    command = ["minimize", "x**4 - 3*x**2 + x", "--x0", "2", "--max-evals", "100", "--plot"]
    (folder / "slgh-path.png").write_text("old")
    refused = run(*command)
    assert refused.exit_code == 2
    assert "slgh-path.png exists" in error_message(refused.stderr)
    assert (folder / "slgh-path.png").read_text() == "old"
    result = run(*command, "--overwrite")
    assert "drawn     slgh-path.png" in result.stdout
    assert (folder / "slgh-path.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a.html", b"<!")])
def test_pictures_of_other_kinds(name: str, begins: bytes, folder: Path) -> None:
    result = run("minimize", "himmelblau", "--max-evals", "100", "--plot", name)
    assert f"drawn     {name}" in result.stdout
    content = (folder / name).read_bytes()
    assert content.startswith(begins)
    if name.endswith("html"):
        assert b"himmelblau: auto" in content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "labels"),
    [("u**2 + (v - 1)**2", ("u", "v")), ("w**2", ("w", "")), ("sum(x[i]**2 for i in range(2))", ("x[0]", "x[1]"))],
)
def test_the_axes_of_the_path_are_the_variables_of_the_formula(
    formula: str, labels: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures, plot = [], plots.plot

    def watched(*args: Any, **options: Any) -> Any:
        figures.append(plot(*args, **options))
        return figures[-1]

    monkeypatch.setattr("slgh.plotting.plots.plot", watched)
    x0 = ",".join("1" for label in labels if label)
    assert "drawn     a.png" in run("minimize", formula, "--x0", x0, "--max-evals", "50", "--plot", "a.png").stdout
    axes = figures[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == labels


def test_runs_in_many_variables_and_stochastic_ones_are_drawn_without_the_function(folder: Path) -> None:
    assert "drawn     a.png\n" in run("minimize", "ackley", "--d", "5", "--max-evals", "99", "--plot", "a.png").stdout
    stochastic = ["--fun", "mine:term", "--terms", "10", "--x0", "0", "--max-evals", "99", "--plot", "b.png"]
    assert "drawn     b.png (without the function, which is stochastic)" in run("minimize", *stochastic).stdout
    assert (folder / "a.png").exists()
    assert (folder / "b.png").exists()


@pytest.mark.slow
def test_a_function_that_fails_where_only_the_picture_asks_loses_neither_picture_nor_result(folder: Path) -> None:
    arguments = ["--fun", "mine:fails_far_away", "--x0", "2.4", "--max-evals", "200"]
    result = run("minimize", *arguments, "--t1", "0.02", "--seed", "0", "--plot", "a.png")
    assert result.exit_code == 0
    assert "drawn     a.png (without the function: RuntimeError in mine.py" in result.stdout
    assert (folder / "a.png").exists()


def test_a_picture_that_cannot_be_drawn_does_not_lose_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("No space left on device")

    monkeypatch.setattr("slgh.plotting.plots.plot", broken)
    result = run("minimize", "x**2", "--x0", "2", "--max-evals", "100", "--plot")
    assert result.exit_code == 1
    assert "minimize  x**2" in result.stdout
    assert error_message(result.stderr) == "--plot: slgh-path.png was not drawn: No space left on device."


def test_without_matplotlib_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("slgh.cli.output.find_spec", lambda name: None)
    assert run("minimize", "x**2", "--x0", "2", "--max-evals", "100").exit_code == 0
    result = run("minimize", "x**2", "--x0", "2", "--plot", "a.png")
    assert result.exit_code == 2
    assert 'pip install "slgh[plot]"' in result.stderr


# --- runs in a folder

SLOW = ["--fun", "mine:slow", "--x0", "2,3", "--seed", "11"]
KEPT = ["--run", "kept"]
DESCENT = ["--method", "zoslgh_r", "--t1", "1", "--step", "0.01", "--samples", "3"]


def start(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-m", "slgh", *arguments], stdout=pipe, stderr=pipe, text=True)


def wait_for(place: Path, iterations: int) -> None:
    """Wait until a run in another process has saved this many iterations."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = checkpoint.read(place / "checkpoint.npz")
        if found and found[0]["k"] >= iterations:
            return
        time.sleep(0.01)
    raise AssertionError("the run did not begin")


def differences(found: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """Return the entries in which two runs differ, except for their times."""
    return {name for name in found.keys() | other.keys() if found.get(name) != other.get(name)} - {"seconds"}


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_result_bit_for_bit(folder: Path) -> None:
    command = ["minimize", *SLOW, "--run", "kept", "--max-evals", "800", "--save-every", "0"]
    process = start(*command)
    wait_for(folder / "kept", 5)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.communicate()
    assert not (folder / "kept" / "result.json").exists()
    resumed = run(*command, "--json", "-", "--history")
    assert resumed.exit_code == 0, resumed.output
    expected = minimize(*SLOW, "--max-evals", "800", "--history")
    assert differences(json.loads(resumed.stdout), expected) <= {"fun_x0"}  # which a resumed run does not ask for
    kept = json.loads((folder / "kept" / "result.json").read_text())
    assert (kept["x"], kept["repeat"]) == (expected["x"], expected["repeat"])


@pytest.mark.slow
def test_ctrl_c_prints_what_there_is_and_how_to_go_on(folder: Path) -> None:
    command = ["minimize", *SLOW, "--max-evals", "800", "--run", "my run", "--save-every", "0"]
    process = start(*command)
    wait_for(folder / "my run", 5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "status    interrupted" in out
    told, again = err.removesuffix("\n").split(": slgh ")
    assert told == "note: interrupted. Resume with"
    assert set(shlex.split(again)) == set(command)
    resumed = run(*shlex.split(again), "--json", "-", "--history")
    expected = minimize(*SLOW, "--max-evals", "800", "--history")
    assert differences(json.loads(resumed.stdout), expected) == set()


def test_ctrl_c_without_a_folder_says_what_would_have_kept_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    original = slgh.minimize

    def interrupted(*args: Any, **options: Any) -> Any:
        def callback(result: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        return original(*args, **options, callback=callback)

    monkeypatch.setattr(slgh, "minimize", interrupted)
    result = run("minimize", "x**2", "--x0", "1")
    assert result.exit_code == 130
    assert "status    interrupted" in result.stdout
    assert "With --run FOLDER" in result.stderr


def test_a_run_cut_short_goes_on_with_a_larger_limit_as_if_it_had_had_it(folder: Path) -> None:
    arguments = ["--fun", "mine:sphere", "--x0", "2,3", "--seed", "5", *DESCENT]
    cut = run("minimize", *arguments, "--run", "kept", "--max-evals", "50")
    assert cut.exit_code == 3
    told, again = cut.stderr.removesuffix("\n").split(": slgh ")
    assert told == "note: cut short. Resume with"
    assert "--max-evals MORE" in again
    resumed = run(*shlex.split(again.replace("MORE", "400")), "--json", "-", "--history")
    assert resumed.exit_code == 3
    found = json.loads(resumed.stdout)
    expected = minimize(*arguments, "--max-evals", "400", "--history")
    assert differences(found, expected) <= {"xhat"}  # which is drawn from the iterations first planned
    assert "--max-evals 400" in found["repeat"]
    kept = json.loads((folder / "kept" / "run.json").read_text())
    assert kept["options"]["max_evals"] == 400, "the new limit is kept"


def test_a_resumed_run_says_which_time_it_counts_and_where_it_began(folder: Path) -> None:
    command = ["minimize", "--fun", "mine:sphere", "--x0", "2,3", *QUICK, "--run", "kept"]
    first = run(*command, "--max-seconds", "0")
    assert first.exit_code == 3
    assert "from 5 at x0" in first.stdout
    assert "in this session" not in first.stdout
    resumed = run(*command, "--max-seconds", "60")
    assert resumed.exit_code == 0
    assert "from 5 at x0" in resumed.stdout
    assert " s in this session\n" in resumed.stdout


def test_a_run_goes_on_with_another_output_than_it_began_with(folder: Path) -> None:
    command = ["minimize", "x**2", "--x0", "1", "--max-evals", "50", *SEED, "--run", "kept"]
    assert "drawn" not in run(*command).stdout
    assert "drawn     a.png" in run(*command, "--plot", "a.png").stdout
    assert "drawn     slgh-path.png" in run(*command, "--plot").stdout


@pytest.mark.parametrize("option", ["--ftol", "--xtol"])
def test_a_run_ends_at_a_tolerance(option: str) -> None:
    command = ["--fun", "mine.py:sphere", "--x0", "1,1", "--max-evals", "3000", *SEED]
    found = minimize(*command, option, "1e-6", "--cache", "--run", "kept")
    assert (found["status"], found["exit_code"], found["ncached"] > 0) == ("CONVERGED", 0, True)
    assert found["minima"]["values"] == [found["fun"]]
    assert minimize(*command, option, "1e-6", "--run", "kept")["x"] == found["x"]


def test_a_run_goes_on_with_another_number_of_workers() -> None:
    command = ["--fun", "mine.py:sphere", "--x0", "0,0", *QUICK, "--run", "kept"]
    first = minimize(*command, "--max-seconds", "0")
    assert minimize(*command, "--workers", "2")["nit"] > first["nit"]


def test_the_seed_of_a_kept_run_is_fixed_when_it_is_drawn(folder: Path) -> None:
    command = ["ackley", "--max-evals", "100", "--run", "kept"]
    first = minimize(*command)
    written = json.loads((folder / "kept" / "run.json").read_text())
    assert (written["command"], written["options"]["seed"]) == ("minimize", first["seed"])
    again = minimize(*command)
    assert (again["x"], again["seed"]) == (first["x"], first["seed"])


def test_a_parameter_that_is_infinite_is_kept() -> None:
    hazan = ["--method", "gradopt_hazan", "--t1", "1", "--step", "0.01", "--set", "eps0=inf", "--max-iter", "50"]
    command = ["x**2", "--x0", "1", *hazan, "--run", "kept"]
    assert minimize(*command)["x"] == minimize(*command)["x"]


def test_a_finished_run_says_so_and_tells_its_result_again() -> None:
    command = ["x**2", "--x0", "1", "--run", "kept", "--max-evals", "100"]
    minimize(*command)
    result = run("minimize", *command)
    assert result.exit_code == 0
    assert "This run was already complete" in result.stdout
    assert "completed: The planned iterations were completed." in result.stdout


def test_a_kept_run_can_be_resumed_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = minimize("--fun", "mine.py:sphere", "--x0", "0,0", "--run", "kept", *QUICK)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    again = minimize("--fun", "../mine.py:sphere", "--x0", "0,0", "--run", "../kept", *QUICK)
    assert again["x"] == first["x"]


def refuse(*arguments: str) -> str:
    """Return the message of a refusal."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    return error_message(result.stderr)


OTHERS = {
    "another formula": (["x**4", "--x0", "1"], "was started with FORMULA 'x**2', but this command has FORMULA 'x**4'."),
    "another start": (["x**2", "--x0", "2"], "was started with --x0 1, but this command has --x0 2."),
    "a function": (
        ["--fun", "mine:sphere", "--x0", "1"],
        "was started with FORMULA 'x**2', but this command has no FORMULA",
    ),
    "bounds": (
        ["x**2", "--x0", "1", "--bounds", "0:3"],
        "was started without --bounds, but this command has --bounds 0:3",
    ),
    "another method": (
        ["x**2", "--x0", "1", "--method", "scale_free"],
        "was started without --method, but this command",
    ),
    "a parameter": (["x**2", "--x0", "1", "--t1", "2.5"], "was started without --t1, but this command has --t1 2.5."),
    "a setting": (
        ["x**2", "--x0", "1", "--set", "shape=2"],
        "was started without --set, but this command has --set shape=2",
    ),
    "another seed": (["x**2", "--x0", "1", "--seed", "2"], "was started with --seed 1, but this command has --seed 2."),
    "other handling": (["x**2", "--x0", "1", "--on-nonfinite", "raise"], "this command has --on-nonfinite raise."),
}


def test_another_command_on_the_same_folder_names_the_option(folder: Path) -> None:
    minimize("x**2", "--x0", "1", *KEPT, "--max-evals", "100", "--seed", "1")
    before = {file.name: file.read_bytes() for file in (folder / "kept").iterdir()}
    for name, (arguments, fragment) in OTHERS.items():
        line = refuse("minimize", *arguments, *KEPT, "--max-evals", "100")
        assert line.startswith("--run: the run in kept was started "), name
        assert fragment in line, name
        assert line.endswith("Repeat the first command, or choose another folder."), name
    assert {file.name: file.read_bytes() for file in (folder / "kept").iterdir()} == before


def test_what_a_kept_run_refuses(folder: Path) -> None:
    command = ["x**2", "--x0", "1", *KEPT, "--seed", "1"]
    minimize(*command, "--max-evals", "100")
    assert "--max-evals cannot change, since auto plans by the first limits." in refuse(
        "minimize", *command, "--max-evals", "300"
    )
    done = ["x**2", "--x0", "1", "--run", "done"]
    minimize(*done, "--target", "0.5")
    assert "cannot continue (the target value was reached)" in refuse("minimize", *done, "--target", "0.1")
    whole = (folder / "kept" / "run.json").read_text()
    command += ["--max-evals", "100"]
    for content, fragment in {
        "": "It is damaged, or not a run of slgh",
        whole[:100]: "It is damaged, or not a run of slgh",
        "[1, 2]": "was not written by slgh",
        '{"name": "npm"}': "was not written by slgh",
        '{"command": "attack"}': "belongs to slgh attack. Choose another folder",
        '{"command": "minimize", "format": 1}': "has format 1",
        '{"command": "minimize", "format": 2, "options": {"x0": "3"}}': "is incomplete",
        '{"command": "minimize", "format": 2, "options": null}': "options must be of type dict",
    }.items():
        (folder / "kept" / "run.json").write_text(content)
        assert fragment in refuse("minimize", *command), content
    (folder / "kept" / "run.json").unlink()
    assert "kept holds a checkpoint, but" in refuse("minimize", *command)
    (folder / "kept" / "run.json").write_text(whole)
    (folder / "kept" / "checkpoint.npz").write_bytes(b"PK nonsense")
    assert "is not a complete checkpoint" in refuse("minimize", *command)
    (folder / "file").write_text("")
    assert "--run: file" in refuse("minimize", "x**2", "--x0", "1", "--run", "file")


def test_a_refused_run_leaves_no_folder_behind(folder: Path) -> None:
    refuse("minimize", "x**2", "--x0", "1", "--run", "kept", "--max-evals", "0")
    assert not (folder / "kept").exists()


def test_an_exception_in_a_kept_run_says_where_it_was_saved(folder: Path) -> None:
    command = ["minimize", "--fun", "mine:fails", "--x0", "1", "--run", "kept"]
    result = run(*command)
    assert result.exit_code == 1
    assert f"saved in '{Path('kept', 'checkpoint.npz')}'" in result.stderr
    (folder / "mine.py").write_text(MINE.replace('raise RuntimeError("the model\\nbroke")', "return float(x[0] ** 2)"))
    sys.modules.pop("mine")
    assert run(*command).exit_code == 0


# --- probe


def test_probe_prints_a_table_and_what_to_do(folder: Path) -> None:
    formula = "sum(x[i]**2 - 10*cos(2*pi*x[i]) + 10 for i in range(d))"
    arguments = ["probe", formula, "--x0", "3.3", "--d", "5", "--seed", "0"]
    result = run(*arguments, "--json", "p.json", "--plot", "p.png")
    assert result.exit_code == 0, result.output
    expected = slgh.probe(slgh.smooth(formula, d=5).fun, np.full(5, 3.3), vectorized=True, seed=0)
    found = json.loads((folder / "p.json").read_text())
    assert found["t1"] == expected.t1
    assert found["reached"] == expected.reached.tolist()
    assert in_options(expected.message) in " ".join(result.stdout.split())
    assert "Drawn: p.png" in result.stdout
    assert (folder / "p.png").read_bytes()[:4] == b"\x89PNG"
    quiet = run(*arguments, "--quiet").stdout.split()
    assert (float(quiet[0]), quiet[1]) == (expected.t1, str(expected.helps).lower())


def test_the_table_of_probe_fits_80_columns_and_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 80)
    result = run("probe", "ackley", "--d", "10", "--seed", "0")
    lines = result.stdout.splitlines()
    assert "…" not in result.stdout
    assert max(map(len, lines)) <= 80
    expected = slgh.probe(slgh.problems.ackley(10).fun, slgh.problems.ackley(10).x0, vectorized=True, seed=0)
    rows = [line.split() for line in lines if re.match(r" [\d.]+ ", line)]
    assert [float(row[0]) for row in rows] == [float(f"{t:.3g}") for t in expected.t]
    assert [float(row[-1]) for row in rows] == [float(f"{score:.3g}") for score in expected.score]
    assert [row[1] == "*" for row in rows] == [t == expected.t1 for t in expected.t]
    assert all(word in result.stdout for word in ("SNR: ", "reached: ", "score: "))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (10.714, 0.023, "10.71(2)"),
        (-0.0449, 0.08, "-0.04(8)"),
        (5.18, 0.096, "5.2(1)"),
        (6.14e-4, 2.1e-4, "6(2)e-04"),
        (123456.0, 1200.0, "1.23(1)e+05"),
        (7.0, 30.0, "1(3)e+01"),
        (0.0, 0.2, "0.0(2)"),
        (1.23456789, 1e-7, "1.235"),
        (1.5, 0.0, "1.5"),
        (1.5, float("nan"), "1.5"),
    ],
)
def test_errors_stand_in_parentheses(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["x**2 +", "--x0", "1"], "FORMULA is not an expression"),
        (["x**2"], "--x0 is missing"),
        (
            ["x**2", "--x0", "1", "--radii", "2,1"],
            "--radii must be a sequence of ascending finite numbers above 0, got --radii [2.0, 1.0].",
        ),
        (["x**2", "--x0", "1", "--samples", "1"], "--samples must be an integer >= 3"),
        (["x**2", "--x0", "1", "--plot", "p.html"], "--plot must end in .png, .svg or .pdf"),
        (["--fun", "mine:words", "--x0", "1"], "--fun must return real numbers"),
        (["log(x - 5)", "--x0", "-99", "--radii", "0.1,0.2"], "--fun must be finite somewhere around --x0"),
    ],
)
def test_what_probe_refuses(arguments: list[str], fragment: str) -> None:
    assert fragment in refuse("probe", *arguments)


@pytest.mark.slow
def test_workers_import_the_function_themselves(folder: Path) -> None:
    arguments = ["--fun", "mine.py:sphere", "--x0", "0,0", "--max-evals", "60", "--seed", "7", "--json", "-"]
    command = [sys.executable, "-m", "slgh", "minimize", *arguments, "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["x"] == minimize(*arguments[:-2], "--parallel", "2")["x"]


def test_a_picture_asks_for_no_point_outside_the_bounds() -> None:
    arguments = ["--fun", "mine:remembers", "--x0", "3", "--bounds", "0:5", "--max-evals", "60", *SEED]
    assert run("minimize", *arguments, "--plot", "a.png").exit_code == 0
    asked = sys.modules["mine"].asked
    assert len(asked) > 1000
    assert 0 <= min(asked) <= max(asked) <= 5


@pytest.mark.slow
def test_a_picture_of_a_slow_function_goes_without_it_in_every_sitting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slgh.cli.minimize.MAX_DRAWING_SECONDS", 0.05)
    arguments = ["--fun", "mine:slow", "--x0", "3", "--max-evals", "60", "--run", "kept", *SEED, "--plot"]
    for result in (run("minimize", *arguments), run("minimize", *arguments, "--overwrite")):
        assert result.exit_code == 0
        assert "drawn     slgh-path.png (without the function: it would take more than 0.05 s)" in result.stdout


def test_a_picture_that_was_asked_for_and_cannot_be_drawn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slgh.cli.drawing.atomic_write", full)
    asked = run("minimize", "x**2", "--x0", "1", "--max-evals", "50", "--quiet", "--plot", "a.png")
    assert asked.exit_code == 1
    assert "--plot: a.png was not drawn" in asked.stderr


@pytest.mark.slow
def test_a_page_shows_f_where_auto_records_means(folder: Path) -> None:
    assert run("minimize", "ackley", "--max-evals", "400", *SEED, "--plot", "a.html").exit_code == 0
    data = json.loads(find(r'type="application/json">(.*?)</script>', (folder / "a.html").read_text())[1])
    path = data["paths"][0]
    first = np.frombuffer(base64.b64decode(path["fun"]), "<f8")[0]
    assert first == pytest.approx(slgh.problems.ackley().fun(np.array([5.0, 5.0])))


@pytest.mark.slow
def test_a_run_without_a_recorded_path_says_so() -> None:
    slow = ["--method", "slgh_r", "--t1", "2", "--step", "1e-4", "--max-seconds", "0.2"]
    result = run("minimize", "himmelblau", *slow, "--plot")
    assert "(without the path, which was not recorded)" in result.stdout


def test_the_command_to_repeat_works_after_two_dashes() -> None:
    first = run("minimize", "--x0", "1", "--max-evals", "50", "--", "-cos(x)")
    again = find(r"^again +slgh (.*)$", first.stdout, re.MULTILINE)[1]
    assert run(*shlex.split(again)).exit_code == 0


def test_what_the_function_prints_stays_out_of_a_probe() -> None:
    result = run("probe", "--fun", "mine:talks", "--x0", "1", "--json", "-", *SEED)
    assert json.loads(result.stdout)["command"] == "probe"


def test_a_closed_form_that_fails_is_the_users() -> None:
    result = run("minimize", "--fun", "mine:form", "--x0", "1")
    assert result.exit_code == 1
    assert "RuntimeError in mine.py" in result.stderr
    assert "internal error" not in result.stderr
    refused = run("minimize", "--fun", "mine:form", "--x0", "1", "--vectorized")
    assert refused.exit_code == 2
    assert "--vectorized is for a function" in refused.stderr


def test_a_json_file_that_cannot_be_written_after_all_is_no_bad_input() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slgh.cli.output.write_text", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        result = run("minimize", "x**2", "--x0", "1", "--max-evals", "50", "--quiet", "--json", "a.json")
    assert result.exit_code == 1
    assert "--json: a.json cannot be written: No space left." in result.stderr


def test_the_block_of_the_documentation_is_what_is_printed() -> None:
    page = (Path(__file__).parent.parent / "docs" / "command_line.md").read_text()
    command, shown = find(r"```sh\nslgh (.*?)\n```.*?```text\n(.*?)```", page, re.DOTALL).groups()
    seconds = re.compile(r"[\d.e-]+ s$", re.MULTILINE)
    assert seconds.sub("# s", run(*shlex.split(command)).stdout) == seconds.sub("# s", shown)
