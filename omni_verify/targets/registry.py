"""Turn a target's name into a `Target`: built-in names and entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from omni_verify.errors import TargetUnusableError, UsageError, unknown_value
from omni_verify.targets.protocol import Target

__all__ = ["ENTRY_POINT_GROUP", "names", "register_variant", "resolve", "variants"]

ENTRY_POINT_GROUP = "omni_verify.targets"
"""Group of entry points that name a `Target`, a class of targets or a function that makes one."""

_VARIANTS: dict[str, Callable[[Target], None]] = {}
_BUILT_IN = ("reference", "vllm-omni")
_FORMS = ("vllm-omni==VERSION", "vllm-omni@PATH", "reference@VARIANT")


def register_variant(name: str, apply: Callable[[Target], None]) -> None:
    """Make ``reference@name`` the reference with `apply` called on it once it is loaded (seeded bugs).

    Registration is how the room of faults, which lies above this one, contributes its mutants.

    Raises:
        UsageError: the name is registered for something else.
    """
    if _VARIANTS.get(name, apply) is not apply:
        raise UsageError(f"the variant {name!r} of the reference is registered twice.")
    _VARIANTS[name] = apply


def variants() -> tuple[str, ...]:
    """Return the registered variants of the reference, sorted."""
    return tuple(sorted(_VARIANTS))


def names() -> tuple[str, ...]:
    """Return every name and form that `resolve` understands here."""
    return (*_BUILT_IN, *_FORMS, *sorted({e.name for e in _plugins()}))


def resolve(spec: str, *, loader: str = "auto") -> Target:
    """Return the target that `spec` names; nothing is fetched or imported yet (except a plugin's module).

    Args:
        spec: ``reference``, ``reference@VARIANT``, ``vllm-omni``, ``vllm-omni==VERSION``, ``vllm-omni@PATH``,
            or an entry point of group ``omni_verify.targets``.
        loader: how vllm-omni is imported: ``auto``, ``isolated`` or ``native``.

    Raises:
        UsageError: unknown name (the nearest is given), version or loader, or a loader for another target.
        TargetUnusableError: a plugin failed; the message names it.
    """
    name, separator, rest = _split(spec.strip())
    if name == "vllm-omni":
        return _vllm_omni(spec.strip(), separator, rest, loader)
    if loader != "auto":
        raise UsageError(f"--loader {loader} applies to vllm-omni only, not to the target {name!r}.")
    if separator and name != "reference":
        raise unknown_value("target", spec, names())
    if name == "reference":
        return _reference(spec.strip(), separator, rest)
    for plugin in _plugins():
        if plugin.name == name:
            return _from_plugin(plugin)
    raise unknown_value("target", spec, names())


def _split(spec: str) -> tuple[str, str, str]:
    """Split at the first separator: a path may contain ``==`` and a version never contains ``@``."""
    at, equal = spec.find("@"), spec.find("==")
    separator = "@" if at >= 0 and (equal < 0 or at < equal) else "=="
    name, found, rest = spec.partition(separator)
    return name.strip(), found, rest.strip()


def _vllm_omni(spec: str, separator: str, rest: str, loader: str) -> Target:
    from omni_verify.targets.vllm_omni.fetch import parse_version
    from omni_verify.targets.vllm_omni.target import VllmOmniTarget

    if separator and not rest:
        raise UsageError(f"{spec!r} ends too early. Write vllm-omni==0.30.0 or vllm-omni@PATH.")
    if separator == "@":
        return VllmOmniTarget(spec, path=Path(rest), loader=loader)
    return VllmOmniTarget(spec, version=parse_version(rest) if separator else None, loader=loader)


def _reference(spec: str, separator: str, variant: str) -> Target:
    from omni_verify.targets.reference import ReferenceTarget

    if separator == "==":
        raise UsageError(f"{spec!r}: the reference has no versions; it is the one of this installation.")
    if separator and variant not in _VARIANTS:
        raise unknown_value("variant of the reference", variant, variants())
    return ReferenceTarget(spec, apply=_VARIANTS[variant] if separator else None)


def _plugins() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)


def _from_plugin(plugin: EntryPoint) -> Target:
    """Load one plugin; whatever it raises becomes one error that names it."""
    where = f"the target plugin {plugin.name!r} ({plugin.value}" + (
        f" of {plugin.dist.name})" if plugin.dist is not None else ")"
    )
    try:
        found: Any = plugin.load()
        target = (
            found()
            if callable(found) and (isinstance(found, type) or not isinstance(found, Target))
            else found
        )
    except Exception as error:  # third-party code: anything may come out
        raise TargetUnusableError(f"{where} failed to load: {type(error).__name__}: {error}") from error
    missing = [n for n in _protocol_members() if not hasattr(type(target), n) and n not in vars(target)]
    if missing:
        raise TargetUnusableError(f"{where} is not a Target: it lacks {', '.join(missing)}.")
    return target  # type: ignore[no-any-return]


def _protocol_members() -> list[str]:
    return sorted({*(n for n in vars(Target) if not n.startswith("_")), "spec"})
