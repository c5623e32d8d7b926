"""Put modules under control: replace names in their own namespaces, and undo it.

Nothing is wrapped in a proxy and no other module sees a change: the same threading code runs under the
interpreter's threads outside the context and under the scheduler inside it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from omni_verify.engine.access import rewrite_functions
from omni_verify.engine.control.files import open_file
from omni_verify.engine.control.models import BASES, FACADES, OBJECTS, remake
from omni_verify.engine.control.scheduler import GRANULARITIES
from omni_verify.errors import UsageError, unknown_value

__all__ = ["instrument", "load_function", "load_modules"]

Undo = Callable[[], None]
_MISSING = object()
_MODELS = {**FACADES, **OBJECTS}


@contextlib.contextmanager
def instrument(modules: Sequence[types.ModuleType], granularity: str = "sync") -> Iterator[list[str]]:
    """Control ``modules`` while the context is open.

    Names that stand for threads, locks, queues, time, files, shared memory and deques become models;
    primitives that exist already as module globals or class attributes are replaced by fresh models; with
    granularity ``access`` the functions also get a point at every shared access.

    Yields:
        What could not be put under control, one line each.

    Raises:
        UsageError: for an unknown granularity.
    """
    if granularity not in GRANULARITIES:
        raise unknown_value("granularity", granularity, GRANULARITIES)
    undo: list[Undo] = []
    missed: list[str] = []
    try:
        if granularity == "access":
            actions, missed = rewrite_functions(modules)
            undo += actions
        for module in modules:
            _replace_names(module, undo)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    _replace_class(value, undo, missed)
        yield missed
    finally:
        for action in reversed(undo):
            action()


def _replace_names(module: types.ModuleType, undo: list[Undo]) -> None:
    namespace = vars(module)
    for name, value in list(namespace.items()):
        model = _MODELS.get(id(value)) or remake(value)
        if model is not None:
            _set(namespace, name, model, undo)
    if "open" not in namespace:
        _set(namespace, "open", open_file, undo)


def _set(namespace: dict[str, Any], name: str, value: Any, undo: list[Undo]) -> None:
    before = namespace.get(name, _MISSING)
    namespace[name] = value
    if before is _MISSING:
        undo.append(lambda: namespace.pop(name, None))
    else:
        undo.append(lambda: namespace.__setitem__(name, before))


def _replace_class(cls: type, undo: list[Undo], missed: list[str]) -> None:
    """Give a class that was defined on real primitives modelled bases and class attributes."""
    bases = tuple(BASES.get(base, base) for base in cls.__bases__)
    if bases != cls.__bases__:
        before = cls.__bases__
        try:
            cls.__bases__ = bases
        except TypeError as error:
            missed.append(f"{cls.__module__}.{cls.__qualname__}: {error}")
        else:
            undo.append(lambda: setattr(cls, "__bases__", before))
    for name, value in list(vars(cls).items()):
        model = remake(value)
        if model is not None:
            setattr(cls, name, model)
            undo.append(lambda name=name, value=value: setattr(cls, name, value))  # type: ignore[misc]


def load_function(spec: str) -> tuple[Callable[[], Any], types.ModuleType]:
    """Import ``FILE.py:FUNCTION``; the function takes no arguments and starts plain threads.

    Raises:
        UsageError: when the text has another form, or file or function do not exist.
    """
    path, colon, name = spec.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise UsageError(f"expected FILE.py:FUNCTION, got {spec!r}.")
    if not os.path.isfile(path):
        raise UsageError(f"no such file: {path!r} (in {spec!r}).")
    module_name = os.path.splitext(os.path.basename(path))[0]
    loader = importlib.util.spec_from_file_location(module_name, path)
    assert loader is not None
    assert loader.loader is not None
    module = importlib.util.module_from_spec(loader)
    sys.modules[module_name] = module  # dataclasses and pickling look the module up by name
    loader.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        names = [
            n
            for n, v in vars(module).items()
            if isinstance(v, types.FunctionType) and v.__module__ == module_name
        ]
        raise unknown_value(f"function in {path}", name, names)
    return function, module


def load_modules(names: Sequence[str]) -> list[types.ModuleType]:
    """Import the modules that ``--instrument`` names.

    Raises:
        UsageError: when one cannot be imported.
    """
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ImportError as error:
            raise UsageError(f"cannot import module {name!r} to instrument it: {error}.") from error
    return found
