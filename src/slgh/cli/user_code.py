"""The user's Python code, named as `module:function` or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import slgh
from slgh.cli.errors import UserCodeFailed, fail
from slgh.engine.objective import is_closed_form


class UserFunction:
    """The user's function, imported from the current folder.

    Its exceptions become UserCodeFailed, so that they are not mistaken for errors of slgh. A worker process receives
    the name and imports the function.
    """

    def __init__(self, option: str, name: str, folder: Path | None = None) -> None:
        folder = Path.cwd() if folder is None else folder
        self._made_of = option, name, folder
        self.name = name
        self.function = load(option, name, folder)
        self.first: tuple[Any, Any] | None = None
        """Arguments and value of the first call, from which f(x0) is known."""

    def __reduce__(self) -> Any:
        return UserFunction, self._made_of

    def __call__(self, *args: Any) -> Any:
        try:
            value = self.function(*args)
        except Exception as error:
            raise failed(error, f"{self.name} as f({', '.join('xi'[: len(args)])})") from error
        if self.first is None:
            self.first = args, value
        return value


class UserClosedForm:
    """The user's closed form. Its exceptions become UserCodeFailed, too."""

    def __init__(self, name: str, form: Any) -> None:
        self.value, self.grad = _blamed(form.value, f"{name}.value"), _blamed(form.grad, f"{name}.grad")
        self.dt, self.trace = _blamed(form.dt, f"{name}.dt"), _blamed(form.trace, f"{name}.trace")


def _blamed(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            raise failed(error, name) from error

    return call


def load(option: str, name: str, folder: Path) -> Callable[..., Any]:
    """Import the function `name`. Modules and files are searched in `folder`."""
    source, colon, attribute = name.rpartition(":")
    if not (colon and source and attribute):
        fail(f"{option} must be module:function or file.py:function, got {name!r}.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found: Any = import_file(option, folder / source) if source.endswith(".py") else import_module(option, source)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            fail(f"{option}: {source} has no function {attribute!r}.{hint}")
        found = getattr(found, part)
    if not (callable(found) or is_closed_form(found)):
        fail(f"{option}: {name} must be a function, got {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def import_module(option: str, name: str) -> ModuleType:
    """Import the user's module."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise failed(error, name) from error
        fail(
            f"{option}: there is no module {name!r}, neither installed nor in this folder. Name a file as "
            "file.py:function."
        )
    except (Exception, SystemExit) as error:
        raise failed(error, name) from error


def import_file(option: str, file: Path) -> ModuleType:
    """Import the user's file."""
    if not file.is_file():
        fail(f"{option}: there is no file {str(file)!r}.")
    name = f"slgh_file_{file.stem}"  # a prefix, so that a file random.py does not hide a module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise failed(error, str(file)) from error
    return module


def failed(error: BaseException, name: str) -> UserCodeFailed:
    """Describe an exception in the user's code, with file and line."""
    package = str(Path(slgh.__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[:1] != "<"]
    theirs = [f for f in frames if not f.filename.startswith(package) and "site-packages" not in f.filename]
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}:{error.lineno}"
    elif theirs and "importlib" not in theirs[-1].filename:
        where = f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}"
    else:
        where = f"the call of {name}"
    # The text of a SyntaxError repeats the file and line.
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return UserCodeFailed(f"{type(error).__name__} in {where}: {text.rstrip('.')}.")
