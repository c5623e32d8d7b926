"""Instrumentation by replacing names: in a target's modules, and on its instances.

Nothing is wrapped in a proxy object (W17: abort reclaims only for the connector's own class), and
the target's source stays as it is. `Patcher` keeps an undo list, so that the explorer can
instrument one process many times.

A nemesis takes part through an `Interceptor`: it may refuse, replace or fail the real call between
its ``enter`` and ``exit`` points, or change its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol

from omni_verify.engine.runtime import Runtime

__all__ = ["DetailOf", "Interceptor", "KeyOf", "Patcher", "Replace"]

KeyOf = Callable[[tuple[Any, ...], dict[str, Any]], "str | None"]
"""Extract the key of a call from its arguments; None means that this call is no point."""

DetailOf = Callable[[Any], dict[str, object]]
"""Extract small JSON values from a call's result."""

_MISSING = object()


class Replace(Exception):
    """Raised by an interceptor: the real call does not run, `value` is its result."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Interceptor(Protocol):
    """A nemesis at a point."""

    def before(self, point: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run before the real call; raise `Replace` to stand in for it, or the fault itself."""

    def after(self, point: str, key: str, result: Any) -> Any:
        """Run after the real call; return the result to give, or raise the fault."""


class _Shim(ModuleType):
    """Stands for a module in one namespace: delegates to the real one, except the overrides."""

    def __init__(self, real: Any) -> None:
        super().__init__(getattr(real, "__name__", "shim"))
        self.__dict__["_omni_real"] = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_omni_real"], name)


class Patcher:
    """Replaces names and puts them back."""

    def __init__(self, runtime: Runtime, interceptor: Interceptor | None = None) -> None:
        self.runtime, self.interceptor = runtime, interceptor
        self._undo: list[Callable[[], None]] = []

    def wrap(
        self, owner: Any, attr: str, point: str, key: KeyOf | None = None, detail: DetailOf | None = None
    ) -> None:
        """Make ``owner.attr(...)`` reach ``<point>.enter`` and ``<point>.exit`` around the real call."""
        self.replace(owner, attr, self.around(getattr(owner, attr), point, key, detail))

    def moment(self, owner: Any, attr: str, point: str, key: str = "") -> None:
        """Make ``owner.attr(...)`` reach the single moment `point` before the real call."""
        real = getattr(owner, attr)

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.runtime.reach(point, key)
            return real(*args, **kwargs)

        self.replace(owner, attr, call)

    def shim(self, module: ModuleType, name: str, overrides: Mapping[str, tuple[str, KeyOf | None]]) -> None:
        """Replace the name of a module (``os``, ``fcntl``) in another module by a delegate.

        Args:
            module: the module whose namespace is changed.
            name: the name in it.
            overrides: attribute of the named module -> (point, key extractor).
        """
        current = getattr(module, name)
        shim = current if isinstance(current, _Shim) else _Shim(current)
        for attr, (point, key) in overrides.items():
            shim.__dict__[attr] = self.around(getattr(current, attr), point, key, None)
        if shim is not current:
            self.replace(module, name, shim)

    def replace(self, owner: Any, attr: str, value: Any) -> None:
        """Set ``owner.attr`` and remember how to put it back."""
        before = vars(owner).get(attr, _MISSING) if hasattr(owner, "__dict__") else getattr(owner, attr)
        setattr(owner, attr, value)

        def undo() -> None:
            if before is _MISSING:
                delattr(owner, attr)
            else:
                setattr(owner, attr, before)

        self._undo.append(undo)

    def undo(self) -> None:
        """Put every name back, newest first."""
        while self._undo:
            self._undo.pop()()

    def around(
        self, real: Callable[..., Any], point: str, key: KeyOf | None, detail: DetailOf | None
    ) -> Callable[..., Any]:
        """Return `real` with its points and its nemesis around it."""
        enter, leave = f"{point}.enter", f"{point}.exit"

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            name = key(args, kwargs) if key else ""
            if name is None:
                return real(*args, **kwargs)
            self.runtime.reach(enter, name)
            try:
                result = self._call(real, point, name, args, kwargs)
            except BaseException as error:
                self.runtime.reach(leave, name, raised=type(error).__name__)
                raise
            self.runtime.reach(leave, name, **(detail(result) if detail else {}))
            return result

        return call

    def _call(
        self, real: Callable[..., Any], point: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self.interceptor is None:
            return real(*args, **kwargs)
        try:
            self.interceptor.before(point, key, args, kwargs)
        except Replace as stand_in:
            return stand_in.value
        return self.interceptor.after(point, key, real(*args, **kwargs))
