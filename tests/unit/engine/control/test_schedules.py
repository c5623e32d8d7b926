"""Tokens, named schedules, replay outcomes and the minimiser."""

import pytest
from engine_generated import Program

from omni_verify.engine import token
from omni_verify.engine.control import Scheduler, clock, threads
from omni_verify.engine.explore import Bounds, explore, replay
from omni_verify.engine.minimise import minimise
from omni_verify.engine.schedule import Schedule, fingerprint
from omni_verify.engine.strategies import make_strategy
from omni_verify.errors import UsageError

SCHEDULE = Schedule(
    fingerprint("p"), "access", 2, 20_000, (0, 0, 3, 0, 1, 200), (4, 2, 300), fingerprint("x")
)


def race(first="x", extra=0, fixed=False):
    """Two tasks; the failure needs the second to start between two steps of the first."""

    def program():
        state = []

        def writer():
            for _ in range(extra):
                clock.sleep(0)
            if not fixed:
                state.append(first)
            clock.sleep(0)
            if fixed:
                state.append(first)
            state.append("done")

        def reader():
            assert len(state) != 1, "half written"

        workers = [threads.Thread(target=body, name=body.__name__) for body in (writer, reader)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return program


def test_token_roundtrip():
    text = token.encode(SCHEDULE)
    assert text.startswith("ov1.")
    assert token.decode(text) == SCHEDULE
    assert token.decode(f"  {text}\n") == SCHEDULE


def test_token_roundtrip_of_generated_runs():
    scheduler = Scheduler()
    for seed in range(50):
        strategy = make_strategy("random", seed)
        strategy.new_execution()
        tape = scheduler.run(Program(seed), strategy).tape
        while tape and not tape[-1]:
            tape.pop()
        made = Schedule(seed, "sync", 0, 100, tuple(tape))
        assert token.decode(token.encode(made)) == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "not a schedule token"),
        ("ov9.00000000.AAAA", "version 'ov9'"),
        ("ov1.zz.AAAA", "damaged"),
        ("ov1.00000000.A", "damaged"),
        (token.encode(SCHEDULE)[:-1] + "_", "damaged"),
        (token.encode(SCHEDULE)[:-4], "damaged"),
    ],
)
def test_bad_tokens_are_user_errors(text, says):
    with pytest.raises(UsageError, match=says):
        token.decode(text)


def test_every_single_character_change_is_noticed():
    text = token.encode(SCHEDULE)
    start = len("ov1.00000000.")
    for at in range(start, len(text)):
        other = "A" if text[at] != "A" else "B"
        try:
            assert token.decode(text[:at] + other + text[at + 1 :]) == SCHEDULE  # unused bits at the end
        except UsageError:
            continue


def test_another_program_is_refused():
    found = explore(race(), name="one", budget=100).failures[0]
    with pytest.raises(UsageError, match="another program"):
        replay(found.token, race(), name="two")


@pytest.mark.parametrize("form", ["token", "named"])
def test_outcomes(form):
    found = explore(race(), name="race", budget=100).failures[0]
    how = found.token if form == "token" else found.named
    assert replay(how, race(), name="race").outcome == "VIOLATED"
    assert replay(how, race(fixed=True), name="race").outcome == "FIXED"

    def other():
        raise KeyError("another")

    error = replay(how, other, name="race", failure=fingerprint(found.failure.identity))
    assert error.outcome == "ERROR"
    gone = replay(how, lambda: None, name="race")
    assert gone.outcome == "DIVERGED"
    assert gone.diverged is not None


def test_failure_is_known_with_its_token_before_it_is_explained():
    result = explore(race(), name="race", budget=100, shrink=False, explain=False)
    (bare,) = result.failures
    assert (bare.trace, bare.named, result.certificate.points) == ([], [], [])
    (told,) = explore(race(), name="race", budget=100, shrink=False).failures
    assert (told.execution, told.schedule.tape) == (bare.execution, bare.schedule.tape)
    assert told.trace
    assert "half written" in bare.failure.detail
    again = replay(bare.token, race(), name="race")
    assert (again.outcome, again.run.trace) == ("VIOLATED", told.trace)


def test_named_schedule_survives_an_edit_that_moves_positions():
    found = explore(race(), name="race", budget=100).failures[0]

    def edited():
        unrelated = threads.Thread(target=lambda: None, name="unrelated")
        unrelated.start()
        unrelated.join()
        race()()

    assert replay(found.named, edited).outcome == "VIOLATED"


def test_minimiser_keeps_the_failure_and_reaches_one_preemption():
    program = race(extra=5)
    scheduler = Scheduler()
    reruns = []
    for seed in range(40):
        strategy = make_strategy("random", seed)
        strategy.new_execution()
        run = scheduler.run(program, strategy)
        if run.failure is None:
            continue
        small = minimise(scheduler, program, run.tape, run.failure.identity)
        assert small is not None
        assert small.preemptions <= 1
        assert small.switches <= 2
        reruns.append(small.reruns)
    assert len(reruns) >= 2
    assert sorted(reruns)[len(reruns) // 2] <= 30


def test_minimiser_does_not_switch_to_another_failure():
    def program():
        hit = []

        def work(name):
            clock.sleep(0)
            hit.append(name)
            if hit == ["b"]:
                clock.sleep(0)
                raise ValueError("b first")
            assert hit != ["a"], "a first"

        for name in "ab":
            threads.Thread(target=work, args=(name,)).start()

    scheduler = Scheduler()
    for seed in range(30):
        strategy = make_strategy("random", seed)
        strategy.new_execution()
        run = scheduler.run(program, strategy)
        if run.failure is not None and run.failure.identity.startswith("ValueError"):
            small = minimise(scheduler, program, run.tape, run.failure.identity)
            assert small is not None
            assert (small.preemptions, small.switches) == (0, 1)
            return
    pytest.fail("the second failure did not occur")


def test_same_results_for_the_same_seed():
    one, two = (explore(race(), seed=9, budget=100, bounds=Bounds()) for _ in range(2))
    assert [f.token for f in one.failures] == [f.token for f in two.failures]
    assert one.schedules == two.schedules
