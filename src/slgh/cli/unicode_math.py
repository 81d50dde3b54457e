"""Convert the LaTeX of docstrings to Unicode for the terminal.

Only the small part of LaTeX that docstrings use is supported. An unknown command is kept, with its backslash.
"""

from __future__ import annotations

import re
import unicodedata

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)

SYMBOLS = {
    r"\alpha": "α",
    r"\beta": "β",
    r"\gamma": "γ",
    r"\delta": "δ",
    r"\epsilon": "ε",
    r"\eta": "η",
    r"\mu": "μ",
    r"\nu": "ν",
    r"\xi": "ξ",
    r"\rho": "ρ",
    r"\sigma": "σ",
    r"\Delta": "Δ",
    r"\nabla": "∇",
    r"\partial": "∂",
    r"\sum": "Σ",
    r"\top": "ᵀ",
    r"\le": "≤",
    r"\ge": "≥",
    r"\approx": "≈",
    r"\sim": "~",
    r"\in": "∈",
    r"\leftarrow": "←",
    r"\to": "→",
    r"\cdot": "·",
    r"\dots": "...",
    r"\max": "max",
    r"\min": "min",
    r"\exp": "exp",
    r"\log": "log",
    r"\left": "",
    r"\right": "",
    "-": "−",
}

ACCENTS = {
    r"\tilde": "\N{COMBINING TILDE}",
    r"\hat": "\N{COMBINING CIRCUMFLEX ACCENT}",
    r"\bar": "\N{COMBINING MACRON}",
}

DIGITS = "0123456789+−=()"
SUBSCRIPTS = dict(zip(f"{DIGITS}aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
SUPERSCRIPTS = dict(zip(f"{DIGITS}dhijkmnprstxMNTᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵈʰⁱʲᵏᵐⁿᵖʳˢᵗˣᴹᴺᵀᵀ", strict=True))

FRACTION_END = "\0"
"""Mark behind a fraction. A dot replaces it if a factor follows."""


def to_unicode(latex: str) -> str:
    r"""Return a formula in Unicode, with one line per equation.

    >>> to_unicode(r"\frac{1}{M} \sum_{i=1}^M \frac{f(x + t u_i) - f(x)}{t}\, u_i, \qquad \tilde g_{k+1} = \sqrt{d}")
    '1/M Σᵢ₌₁ᴹ (f(x + t uᵢ) − f(x))/t · uᵢ\ng̃ₖ₊₁ = √d'
    """
    text = _sequence(TOKEN.findall(latex)[::-1])
    text = re.sub(rf"{FRACTION_END} *(?=[^\W\d]|[(|√∇])(?!Σ)", " · ", text).replace(FRACTION_END, "")
    return "\n".join(" ".join(line.split()).rstrip(",") for line in text.split("\n"))


def _sequence(tokens: list[str]) -> str:
    """Convert the tokens, which are in reversed order, up to a closing brace."""
    text = ""
    while tokens and (token := tokens.pop()) != "}":
        if token in ("_", "^"):
            text = text.rstrip() + _script(token, _argument(tokens))
        elif token in (r"\quad", r"\qquad"):
            text += "\n" if text.rstrip().endswith(",") else " "
        else:
            text += _atom(token, tokens)
    return text


def _argument(tokens: list[str]) -> str:
    """Convert the argument of a command: a group in braces, or one token."""
    while tokens and tokens[-1].isspace():
        tokens.pop()
    token = tokens.pop()
    return _sequence(tokens) if token == "{" else _atom(token, tokens)


def _atom(token: str, tokens: list[str]) -> str:
    """Convert one token, and the arguments that follow it."""
    if token == "{":
        return _sequence(tokens)
    if token == r"\frac":
        return f"{_numerator(_argument(tokens))}/{_in_parentheses(_argument(tokens))}{FRACTION_END}"
    if token == r"\sqrt":
        return f"√{_in_parentheses(_argument(tokens))}"
    if token in ACCENTS:
        accented = _argument(tokens)
        return f"{accented[0]}{ACCENTS[token]}{accented[1:]}"
    if token in (r"\text", r"\operatorname"):
        return _argument(tokens) + " " * (tokens[-1:] != [] and tokens[-1].startswith("\\"))
    if token in (r"\nabla", r"\partial"):  # which belong to what follows
        while tokens and tokens[-1].isspace():
            tokens.pop()
    if token.isspace() or token in (r"\,", r"\;", r"\ "):
        return " "
    if token in (r"\{", r"\}", r"\#"):
        return token[1]
    return SYMBOLS.get(token, token)


def _script(mark: str, text: str) -> str:
    """Return a subscript or superscript, after its mark if Unicode lacks one of its letters."""
    table = SUBSCRIPTS if mark == "_" else SUPERSCRIPTS
    plain = text.replace(" ", "")
    if all(letter in table for letter in plain):
        return "".join(table[letter] for letter in plain)
    return f"{mark}{text}" if mark == "_" or len(text) == 1 else f"{mark}({text})"


def _numerator(text: str) -> str:
    """Put a sum or a fraction in parentheses. A product needs none."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and i > 0 and letter in "+−/":
            return f"({text})"
    return text


def _in_parentheses(text: str) -> str:
    """Put text in parentheses, unless it is a number, or a symbol with its scripts and accents."""
    plain = text.removeprefix("∂").strip("|")
    scripts = {*SUBSCRIPTS.values(), *SUPERSCRIPTS.values()}
    simple = all(letter in scripts or unicodedata.combining(letter) for letter in plain[1:])
    return text if simple or text.isdigit() else f"({text})"
