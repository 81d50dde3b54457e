"""Smooth random formulas, and compare F and its derivatives with quadrature and differences. Also try hostile texts."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import slgh
from fuzz import zygote
from fuzz.formula_trees import (
    BENT,
    JUMPING,
    Floats,
    draw_formula,
    draw_open_formula,
    evaluate,
    operations,
    smaller,
    tame,
    write,
)
from fuzz.target import Case, Violation

LIMIT = 200.0
"""Seconds for all formulas of a case."""

EACH = 120.0
"""CPU seconds for one formula: the 60 of `slgh.smooth`, and a long SymPy call that started before."""

HOSTILE = (
    "__import__('os').system('touch MARK')",
    "open('MARK', 'w')",
    'exec(\'open("MARK", "w")\')',
    "eval('1') + x",
    "().__class__.__bases__[0].__subclasses__()",
    "x.__class__",
    "x.real",
    "(lambda: x)()",
    "[open('MARK', 'w') for y in x]",
    "f'{x}'",
    "x := 3",
    "x; y",
    "import os",
    "9**9**9**9",
    "x**(10**10)",
    "x**64**64",
    "2**(2**x)",
    "1/0*x",
    "0**(-1) + x",
    "log(0)*x",
    "log(-1)*x",
    "sqrt(-1)*x",
    "zoo*x",
    "oo*x",
    "I*x",
    "nan*x",
    "Symbol('x')",
    "Integral(x)",
    "S('open(1)')",
    "x if",
    "x if x else y",
    "x == y",
    "x and y",
    "max()",
    "max(x)",
    "min(" + ", ".join(f"x{i}" for i in range(40)) + ")",
    "x[0] + y",
    "x[-1]",
    "x[y]",
    "x[0][0]",
    "x[10**9]",
    "x[2147483647]",
    "x[d]",
    "sum(x[i] for i in range(10**9))",
    "sum(x[i]*x[j] for i in range(d) for j in range(d))",
    "sum(i for i in range(d))",
    "prod(x[i] for i in range(5))",
    "sum(x[i] for i in range(d) if i)",
    "sum(x[i+1] for i in range(d))",
    "mean(x[i]**2 for i in range(0))",
    "1e400*x",
    "1e-400*x",
    "1j*x",
    "'a'*x",
    "True*x",
    "",
    " ",
    "#x",
    "x\0",
    "x\n+1",
    "\uff58 + 1",
    "π*x",
    "_x",
    "d",
    "pi",
    "0*x",
    "x - x",
    "(" * 300 + "x" + ")" * 300,
    "-" * 3000 + "x",
    "+".join(["x"] * 9000),
    "x" * 30_000,
    "abs(" * 50 + "x" + ")" * 50,
    "sin(" * 55 + "x" + ")" * 55,
    "max(y**3, e)",
    "exp(sign(x)+y)",
)
"""Texts that must be refused with a ValueError, or be harmless."""

LARGE: tuple[Callable[[], str], ...] = (
    lambda: " + ".join(f"v{i}**2" for i in range(1500)),
    lambda: " + ".join(f"v{i}*v{i + 1}" for i in range(1200)),
    lambda: "*".join(f"(x + exp(y) + abs(z) + {i})" for i in range(1, 9)),
    lambda: "*".join(f"(x{i}**2 + sin(x{i}) + abs(x{i}))" for i in range(8)),
    lambda: "*".join(f"(1 + abs(x - {i}))" for i in range(8)),
    lambda: "(x + y + z + 1)**40",
    lambda: "(sin(x) + cos(y) + exp(-z**2) + abs(x))**8",
    lambda: "max(" + ", ".join(f"x + {i}*y" for i in range(16)) + ")",
)
"""Formulas that take a long time."""


MAX_VARIABLES = 1_000_000
"""A formula such as x[2147483647] has more. It is smoothed, but a point for it would not fit into memory."""


class Formulas:
    """A case is a list of formulas. Each is a tree with a point and a radius, or any text."""

    name = "formulas"
    weight = 1.0
    timeout = 240.0

    def generate(self, rng: random.Random) -> Case:
        """Draw a case."""
        if rng.random() < 0.03:
            return {"formulas": [{"text": rng.choice(LARGE)()}]}
        return {"formulas": [_draw(rng) for _ in range(2)]}

    def check(self, case: Case) -> dict[str, int]:
        """Let a child smooth the formulas, since a text could do anything."""
        if not zygote.available:
            return {"skipped": 1}
        with zygote.scratch() as scratch:
            answer = zygote.ask("sympy", "formulas.smooth_all", case, scratch, LIMIT)
            now = (scratch / "now").read_text() if (scratch / "now").exists() else ""
        if "error" in answer:
            raise Violation(f"The process failed at {now}: {answer['error']}")
        if answer["wrong"]:
            raise Violation("\n".join(answer["wrong"]))
        return {"formulas": len(case["formulas"])}

    def simpler(self, case: Case) -> Iterator[Case]:
        """Yield simpler variants."""
        if len(case["formulas"]) > 1:
            for each in case["formulas"]:
                yield {"formulas": [each]}
            return
        (each,) = case["formulas"]
        if "text" in each:
            for size in (len(each["text"]) // 2, len(each["text"]) - 1):
                if size > 0:
                    yield {"formulas": [{"text": each["text"][:size]}]}
                    yield {"formulas": [{"text": each["text"][-size:]}]}
            return
        if each["fallback"]:
            yield {"formulas": [{**each, "fallback": None}]}
        for tree in smaller(each["tree"]):
            yield {"formulas": [{**each, "tree": tree}]}

    def script(self, case: Case) -> str:
        """Return a script that smooths the formulas, and compares F with an average over many points."""
        lines = ["import numpy as np", "import slgh"]
        for each in case["formulas"]:
            if "text" in each:
                lines.append(f"print(slgh.smooth({each['text']!r}))")
                continue
            d = len(each["x"])
            lines += [
                f"F = slgh.smooth({text_of(each)!r}, fallback={each['fallback']!r}, {_given(each)})",
                f"x, t = np.array({each['x']}), {each['t']}",
                f"u = np.random.default_rng(0).standard_normal((10**6, {d}))",
                "print(F.value(x, t), 'is about', F(x + t * u).mean())",
                "h = 1e-5",
                "print(F.dt(x, t), 'is', t * F.trace(x, t), 'is', (F.value(x, t + h) - F.value(x, t - h)) / (2 * h))",
                f"slopes = [(F.value(x + e, t) - F.value(x - e, t)) / (2 * h) for e in h * np.eye({d})]",
                "print(F.grad(x, t), 'is', slopes)",
            ]
        return "\n".join(lines) + "\n"


def _draw(rng: random.Random) -> Case:
    if rng.random() < 0.25:
        text = rng.choice(HOSTILE)
        if rng.random() < 0.5:
            text = _mutated(write(draw_formula(rng, 2), ["x", "y"]), rng)
        return {"text": text}
    style = rng.choice(["plain", "plain", "vector", "sum", "chain"])
    d = rng.choice([1, 1, 1, 2, 2, 2, 3])
    variables = {"sum": 1, "chain": 2}.get(style, d)
    d = max(d, variables)
    is_open = rng.random() < 0.4
    return {
        "tree": draw_open_formula(rng, variables) if is_open else draw_formula(rng, variables),
        "style": style,
        "x": [round(rng.uniform(-2, 2), 4) + 1e-5 for _ in range(d)],
        "t": round(rng.uniform(0.3, 1.2), 3),
        "fallback": rng.choice(["quadrature", "sampling"] if is_open else [None, None, "quadrature", "sampling"]),
    }


def _mutated(text: str, rng: random.Random) -> str:
    """Delete, insert and replace characters."""
    characters = list(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(characters))
        put = rng.choice(["", "(", ")", "*", "x", "9", "**", " if ", ",", "[", "-"])
        characters[at : at + rng.choice([0, 1, 1, 5])] = put
        characters = characters or ["x"]
    return "".join(characters)


def text_of(each: Case) -> str:
    """Write the formula of a case."""
    style, tree = each["style"], each["tree"]
    if style == "plain":
        return write(tree, ["x", "y", "z"])
    if style == "vector":
        return write(tree, [f"x[{i}]" for i in range(len(each["x"]))])
    body = write(tree, ["x[i]", "x[i+1]"])
    return f"sum({body} for i in range({'d' if style == 'sum' else 'd-1'}))"


def value_of(each: Case, x: Floats) -> Floats:
    """Evaluate the formula of a case at points (..., d), without slgh."""
    style, tree, d = each["style"], each["tree"], x.shape[-1]
    with np.errstate(all="ignore"):
        if style in ("plain", "vector"):
            return evaluate(tree, x)
        width = 1 if style == "sum" else 2
        return np.asarray(sum(evaluate(tree, x[..., i : i + width]) for i in range(d - width + 1)))


def _given(each: Case) -> str:
    """Return the arguments that name the variables, since some may not occur in the formula."""
    return f"variables={['x', 'y', 'z'][: len(each['x'])]}" if each["style"] == "plain" else f"d={len(each['x'])}"


def smooth_all(case: Case, folder: Path) -> dict[str, Any]:
    """Check each formula, in a child."""
    wrong = []
    for each in case["formulas"]:
        text = each["text"].replace("MARK", str(folder / "mark")) if "text" in each else text_of(each)
        (folder / "now").write_text(repr(text[:300]))
        begin = time.process_time()
        try:
            complaint = _smooth_text(text) if "text" in each else _smooth_tree(each, text)
        except Exception as error:
            complaint = f"raises {type(error).__name__}: {str(error)[:300]}"
        if (folder / "mark").exists():
            complaint = "the text was run"
        if (seconds := time.process_time() - begin) > EACH:
            complaint = complaint or f"takes {seconds:.0f} s"
        if complaint:
            wrong.append(f"{text[:300]!r}: {complaint}")
    return {"wrong": wrong}


def _smooth_text(text: str) -> str:
    """Smooth a text that may be anything."""
    with contextlib.suppress(ValueError):
        F = slgh.smooth(text)
        if (F.d or 3) > MAX_VARIABLES:
            return ""
        x = np.full(F.d or 3, 0.3)
        with np.errstate(all="ignore"):
            for name in ("value", "grad", "dt", "trace"):
                getattr(F, name)(x, 0.5)
    return ""


def _smooth_tree(each: Case, text: str) -> str:
    """Return the error in the homotopy of a formula, if any."""
    x, t, style = np.array(each["x"]), each["t"], each["style"]
    given: dict[str, Any] = {"variables": ["x", "y", "z"][: len(x)]} if style == "plain" else {"d": len(x)}
    try:
        F = slgh.smooth(text, fallback=each["fallback"], **given)
    except ValueError:
        return ""
    f, found = float(value_of(each, x)), float(F.value(x, t))
    near = value_of(each, x + t * np.random.default_rng(0).uniform(-3, 3, (500, len(x))))
    if not (math.isfinite(f) and np.isfinite(near).all()):
        return ""
    scale = 1e-300 + float(np.abs(near).max())
    # The root of an expression that should be 0 is not exact: sqrt(cos(pi / 2)) is 1e-8.
    if abs(float(F.value(x, 0.0)) - f) > (1e-9 if tame(each["tree"]) else 1e-7) * scale:
        return f"F(x, 0) is {float(F.value(x, 0.0))}, but f(x) is {f}"
    again = slgh.smooth(text, fallback=each["fallback"], **given)
    for name in ("value", "grad", "dt", "trace"):
        first, second = np.asarray(getattr(F, name)(x, t)), np.asarray(getattr(F, name)(x, t))
        if first.tobytes() != second.tobytes():
            return f"{name} differs from one call to the next"
        if not np.allclose(first, getattr(again, name)(x, t), rtol=0, atol=1e-9 * scale / t**2):
            return f"{name} differs from one time that the formula is smoothed to the next"
    if float(F.error(x, t)) != 0 or F.expression.has(_expectation()):
        return _refuse_approximation(each, text, F, given) if tame(each["tree"]) else ""
    used = operations(each["tree"])
    expected, error = _average(each, x, t, bent=bool(used & set(BENT)), jumps=bool(used & set(JUMPING)))
    if abs(found - expected) > error + 1e-8 * scale:
        return f"F is {found}, but quadrature gives {expected} +- {error:.1e} (scale {scale:.1e})"
    return _refuse_derivatives(F, x, t, scale)


OTHER_NODES = {1: (101, 110, 119), 2: (50, 55, 61), 3: (17, 21, 24)}
"""Nodes per axis of other rules, by the number of variables. Their differences estimate the error of each."""

OTHER_SAMPLES = (150, 190, 230)

SHARE = {"quadrature": 0.02, "sampling": 0.1}
"""Error that is always allowed for an approximation, relative to the deviation in Stein's identities."""

SHARE_OF_JUMPS = {1: 0.15, 2: 0.2, 3: 0.3}
"""The same for quadrature of jumps, by the number of variables: half a node distance falls on the wrong side."""


def _refuse_approximation(each: Case, text: str, F: Any, given: dict[str, Any]) -> str:
    """Compare a fallback and its derivatives with a dense grid, within the error of the fallback's own nodes."""
    fallback = each["fallback"]
    others: list[Any] = []
    jumps = fallback == "quadrature" and operations(each["tree"]) & set(JUMPING)
    share = SHARE_OF_JUMPS[len(each["x"])] if jumps else SHARE[fallback]
    for shift, factor in ((0.0, 1.0), (0.7, 0.6), (-1.1, 1.4)):
        x, t = np.array(each["x"]) + shift, each["t"] * factor
        average = _by_stein(each, x, t)
        if average is None:
            continue
        for name, (expected, error, deviation) in average.items():
            found = np.asarray(getattr(F, name)(x, t))
            allowed = error + share * deviation
            if (np.abs(found - expected) <= allowed).all():
                continue
            if not others:
                counts = OTHER_NODES[len(x)] if fallback == "quadrature" else OTHER_SAMPLES
                others = [slgh.smooth(text, fallback=fallback, nodes=n, **given) for n in counts]
            spread = np.max([np.abs(getattr(other, name)(x, t) - found) for other in others], axis=0)
            if not (np.abs(found - expected) <= allowed + 3 * spread).all():
                return (
                    f"{name} at x={x.tolist()}, t={t} by {fallback} is {found.tolist()}, but a dense grid gives "
                    f"{expected.tolist()} (other nodes differ by {spread.tolist()}, allowed {allowed.tolist()})"
                )
    return ""


def _by_stein(each: Case, x: Floats, t: float) -> dict[str, tuple[Floats, Floats, Floats]] | None:
    """Return value, grad, dt and trace by Stein's identities on a grid, with errors and the integrands' deviations.

    Return None if the grid is not accurate: if a tail matters, or a coarser grid differs.
    """
    d = len(x)
    f = value_of(each, x)
    found = []
    for n in {1: (8001, 5347), 2: (501, 373), 3: (77, 65)}[d]:
        axis = np.linspace(-7, 7, n)
        density = np.exp(-axis * axis / 2)
        u = np.stack([a.ravel() for a in np.meshgrid(*[axis] * d, indexing="ij")], axis=-1)
        w = np.prod([a.ravel() for a in np.meshgrid(*[density / density.sum()] * d, indexing="ij")], axis=0)
        rise = value_of(each, x + t * u) - f
        radial = np.sum(u * u, axis=-1) - d
        terms = np.stack([rise, *(rise * u.T / t), rise * radial / t, rise * radial / t**2])
        if not np.isfinite(terms).all():
            return None
        squares = terms**2 * w
        total = squares.sum(axis=1)
        tail = squares[:, np.abs(u).max(axis=-1) > 5.5].sum(axis=1)
        if (tail > 0.01 * total).any():
            return None
        found.append((terms @ w, np.sqrt(total)))
    (fine, deviation), (coarse, _) = found
    error = 3 * np.abs(fine - coarse) + 1e-8 * (np.abs(f) / min(t, 1.0) ** 2 + deviation)
    if (error > 0.1 * deviation + 1e-6 * (1 + np.abs(f)) / min(t, 1.0) ** 2).any():
        return None
    fine[0] += f
    rows: dict[str, Any] = {"value": 0, "grad": slice(1, d + 1), "dt": d + 1, "trace": d + 2}
    return {name: (fine[row], error[row], deviation[row]) for name, row in rows.items()}


def _expectation() -> Any:
    import sympy

    return sympy.Function("Expectation")


def _refuse_derivatives(F: Any, x: Floats, t: float, scale: float) -> str:
    """Compare the derivatives with differences of F. Their error is the difference between two step sizes."""
    d = len(x)

    def along(i: int) -> Callable[[float], Any]:
        return lambda h: F.value(x + h * np.eye(d)[i], t)

    slopes = [_first(along(i), 0.02 * t) for i in range(d)]
    bends = [_second(along(i), 0.04 * t) for i in range(d)]
    grad, trace, dt = F.grad(x, t), float(F.trace(x, t)), float(F.dt(x, t))
    for i, (slope, error) in enumerate(slopes):
        if abs(grad[i] - slope) > 20 * error + 1e-8 * scale / t:
            return f"grad[{i}] is {grad[i]}, but differences give {slope} +- {error:.1e}"
    bend, error = sum(b for b, _ in bends), sum(e for _, e in bends)
    if abs(trace - bend) > 20 * error + 1e-6 * scale / t**2:
        return f"trace is {trace}, but differences give {bend} +- {error:.1e}"
    rate, error = _first(lambda h: F.value(x, t + h), 0.02 * t)
    if abs(dt - rate) > 20 * error + 1e-8 * scale / t:
        return f"dt is {dt}, but differences give {rate} +- {error:.1e}"
    if abs(dt - t * trace) > 1e-9 * scale / t:
        return f"dt is {dt}, but t trace is {t * trace}"
    return ""


def _first(along: Callable[[float], Any], h: float) -> tuple[float, float]:
    """Differentiate once by fourth-order differences. The error is that of the longer of two steps."""
    coarse, fine = (float(8 * (along(s) - along(-s)) - (along(2 * s) - along(-2 * s))) / (12 * s) for s in (h, h / 2))
    return fine, abs(fine - coarse)


def _second(along: Callable[[float], Any], h: float) -> tuple[float, float]:
    """Differentiate twice."""
    center = along(0.0)
    coarse, fine = (
        float(16 * (along(s) + along(-s)) - (along(2 * s) + along(-2 * s)) - 30 * center) / (12 * s * s)
        for s in (h, h / 2)
    )
    return fine, abs(fine - coarse)


def _average(each: Case, x: Floats, t: float, *, bent: bool, jumps: bool) -> tuple[float, float]:
    """Return E f(x + t u) and its error: by the trapezoidal rule in one or two variables, which is accurate enough.

    In three variables, the Gauss-Hermite product rule is used, which is not reliable at kinks or jumps.
    """
    d = len(x)
    if d > 2 and (bent or jumps):
        return 0.0, math.inf
    found = []
    for n in {1: (40_001, 26_001), 2: (801, 535)}.get(d, (60, 45)):
        if d > 2:
            u, w = np.polynomial.hermite_e.hermegauss(n)
        else:
            u = np.linspace(-12, 12, n)
            w = np.exp(-u * u / 2)
        points = np.stack([axis.ravel() for axis in np.meshgrid(*[u] * d, indexing="ij")], axis=-1)
        weights = np.prod([axis.ravel() for axis in np.meshgrid(*[w / w.sum()] * d, indexing="ij")], axis=0)
        values = value_of(each, x + t * points)
        kept = weights > 1e-40
        found.append((float(weights[kept] @ values[kept]), float(weights[kept] @ np.abs(values[kept]))))
    (fine, size), (coarse, _) = found
    h = 24 / (40_000 if d == 1 else 800)
    rough = (3 * h if jumps else 3 * h * h if bent else 1e-9) * size
    error = 5 * abs(fine - coarse) + rough
    return fine, error if math.isfinite(fine) else math.inf


TARGET = Formulas()
