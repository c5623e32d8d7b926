"""Instrumenting modules: what is replaced, what becomes a point, and that everything is undone."""

import importlib.util
import sys
import textwrap
import threading
import time

import pytest

from omni_verify.engine.control import Scheduler, instrument, load_function
from omni_verify.engine.explore import Bounds, explore
from omni_verify.engine.strategies import Replay
from omni_verify.errors import UsageError


@pytest.fixture
def module(tmp_path):
    made = []

    def make(source):
        name = f"instrumented_{len(made)}_{tmp_path.name}"
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(name, path)
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
        made.append(name)
        return loaded

    yield make
    for name in made:
        del sys.modules[name]


def steps(program, granularity):
    follow = Replay([])
    follow.new_execution()
    run = Scheduler(granularity=granularity).run(program, follow, trace=True)
    assert run.failure is None, run.failure.detail
    return [f"{step.kind} {step.target}".rstrip() for step in run.trace]


def test_names_are_replaced_and_restored(module):
    made = module(
        """
        import threading, time, queue, fcntl, collections
        from threading import Lock, Thread as T
        from time import monotonic as clock
        lock = threading.Lock()
        class C:
            shared = threading.RLock()
        class Worker(threading.Thread):
            pass
        def f(x): return x.n
        """
    )
    before = dict(vars(made))
    shared, bases, code = made.C.shared, made.Worker.__bases__, made.f.__code__
    with instrument([made], "access") as missed:
        assert not missed
        assert made.threading is not threading
        assert made.threading.Lock is made.Lock is not threading.Lock
        assert type(made.lock) is made.Lock
        assert made.clock is not time.monotonic
        assert made.C.shared is not shared
        assert made.Worker.__bases__ == (made.T,)
        assert made.f.__code__ is not code
    assert dict(vars(made)) == before
    assert made.C.shared is shared
    assert made.Worker.__bases__ == bases
    assert made.f.__code__ is code


def test_rewritten_code_is_made_once_and_again_when_the_source_has_changed(module):
    made = module("def f(x): x.n = x.n + 1")
    seen = []
    for _ in range(2):
        with instrument([made], "access"):
            seen.append(made.f.__code__)
    assert seen[0] is seen[1]
    assert seen[0] is not made.f.__code__
    with open(made.__file__, "w") as file:
        file.write("def f(x): x.n = 2\n")
    with instrument([made], "access"):
        assert made.f.__code__ is not seen[0]


def test_thread_subclass_defined_on_the_real_class_is_controlled(module):
    made = module(
        """
        import threading
        class Worker(threading.Thread):
            def __init__(self):
                super().__init__(daemon=True)
                self.ran = False
            def run(self):
                self.ran = True
        def program():
            worker = Worker()
            worker.start()
            worker.join()
            assert worker.ran and isinstance(worker, threading.Thread)
        """
    )
    with instrument([made]):
        result = explore(made.program, budget=5)
    assert not result.failures
    assert not result.certificate.uncontrolled
    assert result.certificate.threads == 2


def test_granularities_nest(module):
    made = module(
        """
        import threading
        class C: n = 0
        def program():
            lock, c = threading.Lock(), C()
            def work():
                with lock:
                    c.n += 1
                c.n += 1
            workers = [threading.Thread(target=work) for _ in range(2)]
            for w in workers: w.start()
            for w in workers: w.join()
        """
    )
    counts = {}
    for granularity in ("connector", "sync", "access"):
        with instrument([made], granularity):
            counts[granularity] = explore(
                made.program, strategy="exhaustive", budget=50_000, bounds=Bounds(granularity=granularity)
            ).schedules
    assert counts["connector"] < counts["sync"] < counts["access"]


def test_private_containers_are_no_points(module):
    made = module(
        """
        def program(shared):
            mine = [1, 2]
            mine.append(3)
            total = sum(x for x in mine) + len(mine) + mine[0]
            escaped = [4]
            shared.append(escaped)
            escaped.append(5)
            return [y for y in mine if y in mine]
        """
    )
    with instrument([made], "access"):
        trace = steps(lambda: made.program([]), "access")
    assert trace == ["begin", "append list#1", "append list#2"]


REWRITES = [
    ("x.n += 1", ["load Box#1.n", "store Box#1.n"], "x.n == 2"),
    ("x.n = 5", ["store Box#1.n"], "x.n == 5"),
    ("x.d['k'] = x.n", ["load Box#1.n", "setitem dict#1"], "x.d['k'] == 1"),
    ("x.d['a'] += 2", ["item dict#1", "setitem dict#1"], "x.d['a'] == 2"),
    ("del x.d['a']", ["delitem dict#1"], "x.d == {}"),
    ("y = 'a' in x.d", ["in dict#1"], "True"),
    ("y = 'a' not in x.d", ["in dict#1"], "not y"),
    ("x.s.append(x.n)", ["load Box#1.n", "append list#1"], "x.s == [3, 1]"),
    ("y = len(x.s)", ["read list#1"], "y == 1"),
    ("y = x.s[0:1]", ["item list#1"], "y == [3]"),
    ("x.n, y = 7, x.n", ["load Box#1.n", "store Box#1.n"], "(x.n, y) == (7, 1)"),
    ("x.n = y = 4", ["store Box#1.n"], "(x.n, y) == (4, 4)"),
    ("(x.n, *y) = [1, 2, 3]", ["store Box#1.n"], "y == [2, 3]"),
    ("x.n: int = 8", ["store Box#1.n"], "x.n == 8"),
    ("y = [v for v in x.s]", ["iter list#1", "iter list#1"], "y == [3]"),
    ("x.s += [4]", ["load Box#1.s", "store Box#1.s"], "x.s == [3, 4]"),
    ("y = x.d.get('z', x.n)", ["load Box#1.n", "read dict#1"], "y == 1"),
    ("y = f'{x.n!r:>3}'", ["load Box#1.n"], "y == '  1'"),
    ("global G; G += 1", ["load G", "store G"], "G == 1"),
    ("y = (lambda: x.n)()", ["load Box#1.n"], "y == 1"),
    ("x.d.update(name=1, site=2, obj=3)", ["update dict#1"], "x.d['site'] == 2"),
]


@pytest.mark.parametrize(("statement", "points", "after"), REWRITES, ids=[row[0] for row in REWRITES])
def test_access_points(module, statement, points, after):
    made = module(
        f"""
        G = 0
        class Box:
            def __init__(self):
                self.n = 1
                self.d = {{'a': 0}}
                self.s = [3]
            def touch(self):
                self.n = self.n
                self.s = self.s if False else self.s
        def prepare():
            return Box()
        def program(x):
            {statement}
            return locals()
        """
    )
    box = made.prepare()
    seen = {}
    with instrument([made], "access"):
        trace = steps(lambda: seen.update(made.program(box)), "access")
    wanted = [p for p in points if p != "load Box#1.s"] if statement != "x.s += [4]" else points
    got = [
        line
        for line in trace
        if line != "begin" and not (line == "load Box#1.s" and "x.s +=" not in statement)
    ]
    assert got == wanted
    assert eval(after, {"G": made.G}, {**seen, "x": box})


def test_attributes_that_are_final_are_no_points(module):
    made = module(
        """
        class C:
            def __init__(self):
                self.fixed = 1
                self.__private = 2
            def program(self):
                self.__private += self.fixed
                return self.__private
        """
    )
    item = made.C()
    with instrument([made], "access"):
        trace = steps(item.program, "access")
    assert trace == ["begin", "load C#1._C__private", "store C#1._C__private", "load C#1._C__private"]


def test_mutation_during_iteration_is_found(module):
    made = module(
        """
        import threading
        from collections import deque
        class Parking:
            def __init__(self):
                self.items = deque([1, 2])
        def program():
            p = Parking()
            t = threading.Thread(target=lambda: p.items.append(3))
            t.start()
            total = sum(x for x in p.items)
            t.join()
        """
    )
    for granularity in ("sync", "access"):
        with instrument([made], granularity):
            result = explore(made.program, budget=300, bounds=Bounds(granularity=granularity))
        assert [f.failure.message for f in result.failures] == [
            "RuntimeError: deque mutated during iteration"
        ]


def test_flock_blocks_the_task_and_not_the_process(module, tmp_path):
    made = module(
        f"""
        import fcntl, threading
        PATH = {str(tmp_path / "lock")!r}
        inside = []
        def work():
            with open(PATH, "w") as f:
                fcntl.flock(f, fcntl.LOCK_EX)
                assert not inside
                inside.append(1)
                fcntl.flock(f.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                inside.clear()
                # released by closing the file
        def program():
            inside.clear()
            workers = [threading.Thread(target=work) for _ in range(2)]
            for w in workers: w.start()
            for w in workers: w.join()
        """
    )
    with instrument([made]):
        result = explore(made.program, budget=200)
    assert not result.failures
    assert not result.certificate.uncontrolled
    assert "lock.flock lock" in result.certificate.points


@pytest.mark.parametrize(
    ("spec", "says"),
    [("x", "FILE.py:FUNCTION"), ("none.py:f", "no such file"), ("{here}:nothing", "unknown function")],
)
def test_bad_program_names_are_user_errors(spec, says, tmp_path):
    path = tmp_path / "prog.py"
    path.write_text("def something(): pass\n")
    with pytest.raises(UsageError, match=says):
        load_function(spec.format(here=path))
