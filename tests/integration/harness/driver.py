"""Run programs on the reference, each in a forked child, and print their results as JSON lines."""

import os
import sys

import msgspec
import programs

from omni_verify import targets
from omni_verify.audit import namespace
from omni_verify.harness.case import run_case
from omni_verify.harness.scenario import Scenario
from omni_verify.settings import Settings

mode, prefix, *names = sys.argv[1:]
target = targets.resolve("reference")
target.load()
for name in names:
    short = name.startswith("inconclusive")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if mode == "mount":
                namespace.enter()
            case = Scenario(
                id=f"test/{name.replace('_', '-')}",
                program=getattr(programs, name),
                story="A test.",
                invariants=("I29", "I51", "I36", "I37b"),
                source="test",
            )
            bounds = Settings(gate_s=1.0 if short else 60.0, wait_s=1.0 if short else 60.0)
            own = f"{prefix}{name}-" if mode == "prefix" else ""
            result = run_case(target, case, settings=bounds, prefix=own, isolation=mode)
            with os.fdopen(writer, "wb") as out:
                out.write(msgspec.json.encode(result))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        text = source.read().decode()
    os.waitpid(pid, 0)
    sys.stdout.write(f"{text or 'null'}\n")
