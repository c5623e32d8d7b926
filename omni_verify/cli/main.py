"""Entry point of the command line: registers the commands and maps errors to exit codes."""

from __future__ import annotations

import errno
import os
import platform
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any

import typer
import typer.core

import omni_verify
from omni_verify.cli.audit import audit
from omni_verify.cli.check import check
from omni_verify.cli.coverage import coverage
from omni_verify.cli.doctor import doctor
from omni_verify.cli.explore import explore
from omni_verify.cli.fuzz import fuzz
from omni_verify.cli.kills import kills
from omni_verify.cli.listing import list_
from omni_verify.cli.matrix import matrix
from omni_verify.cli.mutants import mutants
from omni_verify.cli.pairs import pairs
from omni_verify.cli.promote import promote
from omni_verify.cli.replay import minimize, replay
from omni_verify.cli.report import report
from omni_verify.cli.serve import serve
from omni_verify.cli.soak import soak
from omni_verify.errors import OmniVerifyError, TargetUnusableError
from omni_verify.report.silence import silence

__all__ = ["app", "main"]

INTERNAL_ERROR = 70


class _Interrupted(BaseException):
    """Carries a KeyboardInterrupt past Typer, which would exit with 130 for any signal, and say nothing."""


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _Interrupted(str(stop) or "SIGINT") from None


app = typer.Typer(
    cls=_Commands,
    name="omni-verify",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain text: the same in a log as on a terminal
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check")(check)
app.command("explore")(explore)
app.command("fuzz")(fuzz)
app.command("coverage")(coverage)
app.command("replay")(replay)
app.command("minimize")(minimize)
app.command("promote")(promote)
app.command("matrix")(matrix)
app.command("mutants")(mutants)
app.command("pairs")(pairs)
app.command("audit")(audit)
app.command("soak")(soak)
app.command("kills")(kills)
app.command("serve")(serve)
app.command("report")(report)
app.command("list")(list_)
app.command("doctor")(doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"omni-verify {omni_verify.__version__} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Executable contracts for the connectors of multi-stage inference pipelines.

    Exit codes: 0 held, 1 violated, 2 usage, 3 inconclusive, 4 target or environment not usable,
    5 nothing selected, 70 internal error.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; an error is one message, never a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(args=list(sys.argv[1:] if argv is None else argv), prog_name="omni-verify")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except OmniVerifyError as error:
        sys.stderr.write(f"omni-verify: {error}\n")
        return error.exit_code
    except (_Interrupted, KeyboardInterrupt) as stop:
        name = str(stop) or "SIGINT"
        sys.stderr.write(f"omni-verify: interrupted by {name}\n")
        return 128 + int(signal.Signals[name])
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _internal_error(error)
        where = repr(error.filename) if error.filename else "its output or a report"
        sys.stderr.write(f"omni-verify: cannot write {where}: {error.strerror}. Make room, run it again.\n")
        silence(sys.stdout)
        return TargetUnusableError.exit_code
    except Exception as error:
        return _internal_error(error)
    return 0


def _internal_error(error: Exception) -> int:
    sys.stderr.write(_bug_report(error))
    return INTERNAL_ERROR


def _terminate(number: int, frame: FrameType | None) -> None:
    # the same path as Ctrl-C: cases are ended, prefixes swept, what is known is reported
    raise KeyboardInterrupt("SIGTERM")


def _bug_report(error: Exception) -> str:
    handle, path = tempfile.mkstemp(prefix="omni-verify-bug-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"omni-verify {omni_verify.__version__}, Python {sys.version}, {platform.platform()}\n")
        file.write(f"command line: {sys.argv}\n\n")
        traceback.print_exception(error, file=file)
    return (
        f"omni-verify: internal error: {type(error).__name__}: {error}\n"
        f"This is a defect of omni-verify, not of the target. Please report it with the file {path}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
