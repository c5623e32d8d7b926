"""Which options a command line really has, beside those that stand at their defaults."""

from __future__ import annotations

from collections.abc import Iterable

import typer

__all__ = ["given"]


def given(context: typer.Context, names: Iterable[str] | None = None, *, besides: Iterable[str] = ()) -> str:
    """Return the options that were given on the command line, as the user writes them, or nothing.

    What comes from the environment or is a default does not count: it is meant for every command.

    Args:
        context: of the command.
        names: parameters that are looked at; None takes all.
        besides: parameters that are not.
    """
    spelled = {
        p.name: max((option for option in p.opts), key=len)
        for p in context.command.params
        if p.name in context.params and p.opts
    }
    wanted = spelled if names is None else names
    return ", ".join(
        spelled[name]
        for name in wanted
        if name in spelled
        and name not in besides
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    )
