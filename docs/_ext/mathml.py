"""Math renderer that writes MathML, which browsers draw without scripts, fonts or a network."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

OPERATOR = re.compile(r"(\\operatorname\{\w+\}|\\log|\\ln)(_\\?\w+)?(?=[\s\\])")
ACCENTS = set("~ˉˆ")


def convert(tex: str, *, block: bool) -> str:
    """Convert TeX to MathML with docutils, and correct three details.

    Operators get space around them, bars get none, and subscripts of accented letters go beside them, not below.
    """
    spaced = OPERATOR.sub(r"\\,\g<0>\\,", tex.replace(r"\dots", r"\ldots"))
    markup = tex2mathml(spaced, as_block=block)
    math = ElementTree.fromstring(re.sub(r' xmlns="[^"]*"', "", markup).replace("&ApplyFunction;", ""))
    for node in math.iter("mo"):
        if node.text == "|":  # a bar of |x|, not a relation
            node.attrib.update(lspace="0", rspace="0")
    for node in math.iter("munderover"):
        base, below, accent = node
        if accent.text in ACCENTS:
            over = ElementTree.Element("mover", accent="true")
            over.extend([base, accent])
            node.tag = "msub"
            node[:] = [over, below]
    return ElementTree.tostring(math, encoding="unicode")


def write(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write one formula. Sphinx calls this."""
    block, tex = isinstance(node, nodes.math_block), node.astext()
    try:
        markup = convert(tex, block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("no MathML for %s: %s", tex, error, location=node)
        markup = translator.encode(tex)
    translator.body.append(f'<div class="math">{markup}</div>\n' if block else markup)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (write, None), (write, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
