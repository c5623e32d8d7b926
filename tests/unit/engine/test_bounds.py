"""The bounds of a search are documented with their defaults, and a kept scheduler is as good as a new one."""

import dataclasses
import pathlib

import pytest

from omni_verify.engine.bounds import Bounds
from omni_verify.engine.strategies import RandomWalk

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "reference" / "exploration.md"


@pytest.mark.parametrize("bound", dataclasses.fields(Bounds), ids=lambda bound: bound.name)
def test_every_bound_is_documented_with_its_default(bound):
    shown = f'"{bound.default}"' if isinstance(bound.default, str) else f"{bound.default:g}"
    shown = "False" if bound.default is False else shown
    cell = f"`{shown}`" if isinstance(bound.default, str) else shown
    assert f"| `{bound.name}` | {cell} |" in PAGE.read_text()


def test_the_next_search_gets_the_same_scheduler():
    with Bounds().borrowed() as first:
        pass
    with Bounds().borrowed() as second:
        assert second is first
        with Bounds().borrowed() as third:
            assert third is not first
    with Bounds(max_steps=7).borrowed() as other:
        assert other.max_steps == 7


def test_a_scheduler_that_failed_is_not_kept():
    with Bounds().borrowed() as first:
        pass
    with pytest.raises(KeyError), Bounds().borrowed():
        raise KeyError("x")
    with Bounds().borrowed() as second:
        assert second is not first


def test_a_kept_scheduler_lets_go_of_the_program():
    class Program:
        def __call__(self):
            pass

    import weakref

    program = Program()
    gone = weakref.ref(program)
    walk = RandomWalk(1)
    walk.new_execution()
    with Bounds().borrowed() as scheduler:
        scheduler.run(program, walk)
    del program
    assert gone() is None
