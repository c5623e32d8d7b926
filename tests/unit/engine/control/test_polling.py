"""`select` on virtual time: a wait never blocks the process, and identifiers are the same in every replay."""

import os
import select
import sys
import threading
import types
import uuid

import pytest

from omni_verify.engine.control import instrument
from omni_verify.engine.explore import Bounds, explore, replay

WAIT_S = 3600.0


def _module() -> types.ModuleType:
    module = types.ModuleType("polling_program")
    module.select, module.threading, module.uuid, module.os = select, threading, uuid, os  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return module


@pytest.mark.parametrize("how", ["poll", "select"])
def test_a_wait_for_a_descriptor_ends_by_a_write_or_by_its_virtual_timer(how: str) -> None:
    module = _module()
    seen: set[bool] = set()

    def waiting(fd: int) -> bool:
        if how == "select":
            return bool(module.select.select([fd], [], [], WAIT_S)[0])
        poller = module.select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(WAIT_S * 1000))

    def program() -> None:
        reader, writer = os.pipe()
        try:
            got: list[bool] = []
            thread = module.threading.Thread(target=lambda: got.append(waiting(reader)))
            thread.start()
            module.os.write(writer, b"x")
            thread.join()
            nothing = module.threading.Thread(
                target=lambda: (os.read(reader, 1), got.append(waiting(reader)))
            )
            nothing.start()
            nothing.join()
            seen.add(got == [True, False])
        finally:
            os.close(reader)
            os.close(writer)

    with instrument([module]):
        result = explore(program, strategy="random", budget=30, bounds=Bounds(early_timers=0))
    assert result.schedules == 30
    assert not result.failures
    assert seen == {True}


def test_identifiers_are_counted_anew_in_every_execution() -> None:
    module = _module()
    made: list[tuple[str, ...]] = []

    def program() -> None:
        made.append((str(module.uuid.uuid4()), str(module.uuid.uuid4())))
        assert module.uuid.uuid4().version == 5, "always fails, to get a token"

    with instrument([module]):
        result = explore(program, budget=2, name="p")
        replay(result.failures[0].token, program, name="p")
    assert len(set(made)) == 1
    assert made[0][0] != made[0][1]
