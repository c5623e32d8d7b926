"""A user's own ``FILE.py:FUNCTION`` in the place of a target, so that a zygote can hold it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from omni_verify.engine.control import load_function
from omni_verify.errors import UsageError
from omni_verify.targets.protocol import Capabilities, TargetInfo

__all__ = ["RESOLVER", "ProgramTarget", "is_program", "program_label", "resolve"]

RESOLVER = "omni_verify.campaign.explore.program_target:resolve"


def is_program(text: str) -> bool:
    """Tell ``FILE.py:FUNCTION`` from a scenario id or glob."""
    return ".py:" in text


def program_label(spec: str) -> str:
    """Name of a function in tokens: file name and function, so that a moved folder changes nothing."""
    path, _, function = spec.rpartition(":")
    return f"{os.path.basename(path)}:{function}"


def resolve(spec: str, *, loader: str = "auto") -> ProgramTarget:
    """Resolver for `Zygote`."""
    return ProgramTarget(spec)


class ProgramTarget:
    """The module of a function; it has no connector and no adapter.

    Attributes:
        function: the program, after `load`.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.function: Callable[[], Any] | None = None
        self._module: ModuleType | None = None

    def prepare(self) -> None:
        """Nothing is fetched."""

    def load(self) -> None:
        """Import the file, with its folder importable as when it is run as a script.

        Raises:
            UsageError: file or function do not exist, or the file does not import.
        """
        path = self.spec.rpartition(":")[0]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        try:
            self.function, self._module = load_function(self.spec)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"{path} does not import: {type(error).__name__}: {error}. Run it with python to see where."
            ) from error

    @property
    def info(self) -> TargetInfo:
        """The program's label, without capabilities."""
        return TargetInfo(name=program_label(self.spec), connector="", loader="program")

    @property
    def capabilities(self) -> Capabilities:
        """None of a pipeline's; it may be forked."""
        return Capabilities(connector=False, adapter=False, posix_shm=False)

    def modules(self) -> Mapping[str, Sequence[ModuleType]]:
        """The function's own module."""
        return {"program": [self._module] if self._module is not None else []}
