"""Random formulas as JSON trees: draw one, write it as text, and evaluate it with NumPy alone.

A tree is ["number", 1.5], ["variable", 0], or an operation with its operands: ["sin", tree], ["+", tree, tree].
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Tree = list[Any]
Floats = NDArray[np.float64]

BENT = ("abs", "max", "min", "relu")
JUMPING = ("sign", "heaviside", "if", "where")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "atan": np.arctan,
    "erf": special.erf,
    "log": np.log,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "max": np.maximum,
    "min": np.minimum,
}


def draw_formula(rng: random.Random, variables: int) -> Tree:
    """Draw a sum of terms, most of which have a closed form."""
    terms = [_term(rng, variables) for _ in range(rng.choice([1, 1, 2, 3]))]
    return terms[0] if len(terms) == 1 else ["+", *terms]


def _term(rng: random.Random, variables: int) -> Tree:
    if rng.random() < 0.15:
        return _wild(rng, variables, 3)
    factors = [_factor(rng, variables) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    return ["*", _number(rng), *factors]


def _factor(rng: random.Random, variables: int) -> Tree:
    """Draw a factor that can be smoothed alone."""
    linear = _linear(rng, variables)
    kind = rng.choice(["power", "power", "exp", "gaussian", "wave", "bent", "jump", "erf", "if"])
    if kind == "power":
        return ["**", linear, ["number", rng.randint(1, 5)]]
    if kind == "exp":
        return [rng.choice(["exp", "sinh", "cosh"]), linear]
    if kind == "gaussian":
        return ["exp", ["-", ["*", ["number", rng.choice([0.5, 1, 2])], ["**", linear, ["number", 2]]]]]
    if kind == "wave":
        return [rng.choice(["sin", "cos"]), ["*", ["number", rng.choice([1, 2, 5])], linear]]
    if kind == "bent":
        name = rng.choice(BENT)
        return [name, linear] if name in ("abs", "relu") else [name, linear, rng.choice([_number(rng), linear])]
    if kind == "jump":
        return [rng.choice(["sign", "heaviside"]), linear]
    if kind == "erf":
        return ["erf", linear]
    return [rng.choice(["if", "where"]), linear, _number(rng), _power(rng, variables), _power(rng, variables)]


def draw_open_formula(rng: random.Random, variables: int) -> Tree:
    """Draw a sum of terms, most without a closed form but bounded, or with kinks or jumps."""
    terms = [_open_term(rng, variables) for _ in range(rng.choice([1, 1, 2]))]
    return terms[0] if len(terms) == 1 else ["+", *terms]


def _open_term(rng: random.Random, variables: int) -> Tree:
    """Draw a function of one linear form of up to all variables, perhaps times a factor of the others."""
    chosen = rng.sample(range(variables), rng.randint(1, variables))
    inner = _open_wave(rng, _form(rng, chosen))
    kind = rng.choice(["bent", "bent", "capped", "jump", "if", "smooth"])
    if kind == "bent":
        inner = [rng.choice(["abs", "relu"]), inner]
    elif kind == "capped":
        inner = [rng.choice(["max", "min"]), inner, ["number", rng.choice([0.3, -0.25, 0.5])]]
    elif kind == "jump":
        inner = [rng.choice(["sign", "heaviside"]), ["+", inner, ["number", rng.choice([0.3, -0.25])]]]
    elif kind == "if":
        inner = [rng.choice(["if", "where"]), inner, ["number", 0.3], _power(rng, variables), _number(rng)]
    factors: list[Tree] = [["number", rng.choice([1, 2, -1, 0.5])], inner]
    left = [v for v in range(variables) if v not in chosen]
    if left and rng.random() < 0.6:
        other = _form(rng, rng.sample(left, rng.randint(1, len(left))))
        factors.append(
            rng.choice([["cos", other], ["abs", ["sin", other]], ["exp", ["-", ["**", other, ["number", 2]]]]])
        )
    return ["*", *factors]


def _open_wave(rng: random.Random, form: Tree) -> Tree:
    return [rng.choice(["sin", "sin", "cos", "tanh", "atan", "erf"]), form]


def _form(rng: random.Random, chosen: list[int]) -> Tree:
    """Draw a linear form of these variables."""
    parts: list[Tree] = [["*", ["number", rng.choice([1, 1, -1, 2, 0.5])], ["variable", v]] for v in chosen]
    return ["+", *parts, ["number", rng.choice([0.1, -0.25, 0.5])]]


def tame(tree: Tree) -> bool:
    """Return False if the formula could have a pole or an unbounded slope."""
    name, *parts = tree
    if name in ("log", "sqrt", "tan") or (name == "/" and parts[1][0] != "number"):
        return False
    if name == "**" and (parts[1][1] < 0 or parts[1][1] != int(parts[1][1])):
        return False
    return all(tame(part) for part in parts if isinstance(part, list))


def _power(rng: random.Random, variables: int) -> Tree:
    return ["**", _linear(rng, variables), ["number", rng.randint(1, 3)]]


def _linear(rng: random.Random, variables: int) -> Tree:
    """Draw a linear form with small coefficients."""
    chosen = rng.sample(range(variables), rng.randint(1, min(2, variables)))
    parts: list[Tree] = [["*", ["number", rng.choice([1, 1, -1, 0.5, 1.5])], ["variable", v]] for v in chosen]
    return ["+", *parts, _number(rng)] if rng.random() < 0.6 else ["+", *parts] if len(parts) > 1 else parts[0]


def _number(rng: random.Random) -> Tree:
    return rng.choice([["number", rng.choice([1, 2, -1, 0.5, -0.25, 3, 0.1])], ["e"], ["/", ["pi"], ["number", 2]]])


def _wild(rng: random.Random, variables: int, depth: int) -> Tree:
    """Draw any composition. It need not have a closed form or be finite."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([["variable", rng.randrange(variables)], _number(rng)])

    def part() -> Tree:
        return _wild(rng, variables, depth - 1)

    name = rng.choice(["+", "*", "/", "-", "**", "if", "where", *FUNCTIONS])
    if name == "**":
        return ["**", part(), ["number", rng.choice([-1, 0, 1, 2, 3, 0.5])]]
    if name in ("if", "where"):
        return [name, part(), part(), part(), part()]
    return [name, part(), part()] if name in ("+", "*", "/", "max", "min") else [name, part()]


def operations(tree: Tree) -> set[str]:
    """Return the names of all operations."""
    return {tree[0]}.union(*(operations(part) for part in tree[1:] if isinstance(part, list)))


def write(tree: Tree, names: list[str]) -> str:
    """Write a tree as a formula in these variables."""
    name, *parts = tree
    if name == "number":
        return f"({parts[0]!r})" if parts[0] < 0 else repr(parts[0])
    if name == "variable":
        return names[parts[0]]
    if name in ("e", "pi"):
        return str(name)
    sides = [write(part, names) for part in parts]
    if name == "-":
        return f"(-{sides[0]})"
    if name in ("+", "*", "/", "**"):
        return "(" + f" {name} ".join(sides) + ")"
    if name == "if":
        return f"({sides[2]} if {sides[0]} >= {sides[1]} else {sides[3]})"
    if name == "where":
        return f"where({sides[0]} > {sides[1]}, {sides[2]}, {sides[3]})"
    return f"{name}({', '.join(sides)})"


def evaluate(tree: Tree, x: Floats) -> Floats:
    """Evaluate a tree at points (..., d)."""
    name, *parts = tree
    if name == "number":
        return np.full(x.shape[:-1], float(parts[0]))
    if name == "variable":
        return x[..., parts[0]]
    if name in ("e", "pi"):
        return np.full(x.shape[:-1], float(getattr(np, name)))
    sides = [evaluate(part, x) for part in parts]
    if name == "+":
        return np.asarray(np.sum(sides, axis=0))
    if name == "*":
        return np.asarray(np.prod(sides, axis=0))
    if name == "-":
        return -sides[0]
    if name == "/":
        return sides[0] / sides[1]
    if name == "**":
        return sides[0] ** sides[1]
    if name == "if":
        return np.where(sides[0] >= sides[1], sides[2], sides[3])
    if name == "where":
        return np.where(sides[0] > sides[1], sides[2], sides[3])
    return np.asarray(FUNCTIONS[name](*sides))


def smaller(tree: Tree) -> list[Tree]:
    """Return trees with a part replaced by one of its operands, or left out of a sum or product."""
    found: list[Tree] = []
    if tree[0] in ("number", "variable", "e", "pi"):
        return found
    if tree[0] not in ("**", "if", "where"):
        found += [part for part in tree[1:] if isinstance(part, list)]
    if tree[0] in ("+", "*") and len(tree) > 2:
        found += [[*tree[:n], *tree[n + 1 :]] for n in range(1, len(tree)) if len(tree) > 3]
    for n in range(1, len(tree)):
        if isinstance(tree[n], list) and not (tree[0] == "**" and n == 2):
            found += [[*tree[:n], part, *tree[n + 1 :]] for part in smaller(tree[n])]
    return found
