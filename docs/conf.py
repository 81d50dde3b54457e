"""Configuration of the site: `sphinx-build -W --keep-going -n docs OUT`. It needs no network."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import slgh

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "slgh"
author = project_copyright = "the slgh developers"
release = version = slgh.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "dark_pictures",
    "mathml",
    "notebook",
    "parameters",
    "registry",
]
exclude_patterns = ["reproduced"]  # experiments.md includes its tables and pictures

html_theme = "furo"
html_title = f"slgh {release}"
html_static_path = ["_static"]
html_css_files = ["slgh.css"]
html_math_renderer = "mathml"
smartquotes = False  # quotes in this site are mostly code
html_copy_source = html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False  # tables only, because generated pages would be written into docs/
autodoc_mock_imports = ["tensorboard", "mlflow", "wandb", "IPython", "nevergrad", "optuna", "sklearn", "ray"]
autodoc_member_order = "bysource"
autodoc_type_aliases = {name: name for name in ("Array", "Leaves", "Conversation")}
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # names that share a description stay together
napoleon_custom_sections = [("Attributes", "params_style")]
maximum_signature_line_length = 100
python_use_unqualified_type_names = True

default_role = "py:obj"  # `names` of docstrings are links where there is something to link to, and code elsewhere
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    (
        "py:class",
        r"(numpy|np|os|scipy|sympy|torch|optax|matplotlib|collections|pd)\..*|Axes|Figure|TypeAliasForwardRef",
    ),
]


def name_aliases(app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returned: str) -> Any:
    """Write an alias in a union by its name. Sphinx writes TypeAliasForwardRef('Array')."""
    plain = [text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text) for text in (signature, returned)]
    return tuple(plain)


def keep_colons(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put a comment before the text of an attribute, because napoleon reads a first line with a colon as its type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-signature", name_aliases)
