"""Formulas are parsed, and nothing in them is run."""

from __future__ import annotations

import builtins
import os
import time
from typing import Any

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from slgh.smoothing import FormulaError
from slgh.smoothing.parse import FUNCTIONS, parse

x, y = sp.symbols("x y", real=True)
v = sp.IndexedBase("v", real=True)
i, j = sp.symbols("i j", integer=True)
d = sp.Symbol("d", integer=True, positive=True)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("x + 2*y - 3", x + 2 * y - 3),
        ("-x**2", -(x**2)),
        ("2**-x", sp.Integer(2) ** -x),
        ("0.1*x", x / 10),
        ("1e-3*x", x / 1000),
        ("x/4/2", x / 8),
        ("pi*x + e", sp.pi * x + sp.E),
        ("sqrt(2)*exp(-x)", sp.sqrt(2) * sp.exp(-x)),
        ("abs(x) + sign(y)", sp.Abs(x) + sp.sign(y)),
        ("max(0, x, y)", sp.Max(0, x, y)),
        ("min(x, 1)", sp.Min(x, 1)),
        ("where(x > 0, x, 0)", sp.Piecewise((x, x > 0), (0, True))),
        ("1 if 0 <= x < 1 else 0", sp.Piecewise((1, sp.And(x >= 0, x < 1)), (0, True))),
        ("1 if x < 0 or not y > 0 else 0", sp.Piecewise((1, sp.Or(x < 0, y <= 0)), (0, True))),
        ("v[0]*v[2]", v[0] * v[2]),
        ("v[d-1]", v[d - 1]),
        ("sum(i*v[i] for i in range(1, d))", sp.Sum(i * v[i], (i, 1, d - 1))),
        ("prod(v[i+1] for i in range(d-1))", sp.Product(v[i + 1], (i, 0, d - 2))),
        ("sum(v[i]*v[j] for i in range(3) for j in range(i))", sp.Sum(v[i] * v[j], (j, 0, i - 1), (i, 0, 2))),
        ("sum((-1)**i*v[i] for i in range(3))", sp.Sum((-1) ** i * v[i], (i, 0, 2))),
    ],
)
def test_formulas_mean_what_they_say(text: str, meaning: Any) -> None:
    assert parse(text) == meaning


HOSTILE = [
    "__import__('os').system('echo hacked')",
    "().__class__.__bases__[0].__subclasses__()",
    "x.__class__",
    "exec('1')",
    "eval('1')",
    "open('file')",
    "(lambda: x)()",
    "[x for x in range(3)]",
    "{x: 1}",
    "x := 3",
    "f'{x}'",
    "'x'*10**9",
    "b'x'",
    "x @ y",
    "x // 2",
    "x % 2",
    "x << 100",
    "x ^ 2",
    "~x",
    "x and y",
    "x == y",
    "x is y",
    "yield x",
    "await x",
    "x; y",
    "import os",
    "x\ny",
    "print(x)",
    "_x + 1",
    "__builtins__",
    "v[0][0]",
    "v[0:2]",
    "v[0.5]",
    "v[x]",
    "v[-1]",
    "exp[0]",
    "sum(v)",
    "sum([v[0]])",
    "sum(v[i] for i in v)",
    "sum(v[i] for i in range(3) if i)",
    "sum(v[i] for i in range(0, 3, 2))",
    "sum(v[i] for (i, j) in range(3))",
    "max(*[x])",
    "exp(x=1)",
    "exp(x, y)",
    "exp()",
    "max()",
    "sin",
    "9**9**9**9",
    "x**999999",
    "(((9**64)**64)**64)**64",
    "2**-99999999",
    "1e999",
    "exp(exp(exp(exp(99))))",
    "1/0",
    "0**-1",
    "x/(1-1)",
    "log(0)*x",
    "sqrt(-1)*x",
    "x**y",
    "(-2)**x",
    "1j*x",
    "True",
    "None",
    "...",
    "",
    "   ",
    "x +",
    "(" * 5000,
    "-" * 10_000 + "x",
    "x" + "+x" * 20_000,
    "sin(" * 70 + "x" + ")" * 70,
    "x**" * 80 + "2",
    "1" * 19_000,
    "x\x00",
    "\udcff",
    "x if y else 1",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused_quickly_and_runs_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("something was run")

    for module, name in ((os, "system"), (builtins, "eval"), (builtins, "exec"), (sp, "sympify")):
        monkeypatch.setattr(module, name, forbidden)
    start = time.perf_counter()
    with pytest.raises(FormulaError, match="`formula`"):
        parse(text)
    assert time.perf_counter() - start < 5


PIECES = [
    *("x", "y", "v[0]", "v[i]", "i", "d", "pi", "e", "1", "2", "0", "-3", "0.5", "1e9", "64", "65", "9" * 30),
    *("+", "-", "*", "/", "**", "^", "%", "(", ")", "[", "]", ",", " ", ".", "<", ">=", " if ", " else ", " and "),
    *(
        " for i in range(",
        "sum(",
        "prod(",
        "max(",
        "where(",
        "lambda ",
        "__class__",
        "'",
        "\\",
        "\n",
        "=",
        ":",
        "{",
        "}",
    ),
    *(f"{name}(" for name in FUNCTIONS),
]


@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.text(max_size=40)))
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except FormulaError:
        return
    assert isinstance(found, sp.Expr)
    assert not found.has(sp.nan, sp.zoo, sp.I)
