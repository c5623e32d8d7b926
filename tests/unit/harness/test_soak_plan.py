"""Plans of a soak: a function of seed and number, with the shares of the mix."""

from collections import Counter

import pytest

from omni_verify.errors import UsageError
from omni_verify.harness.soak.plan import KINDS, LEAVING, MIXES, mix_of, plan_of


def test_a_plan_depends_on_seed_and_number_alone():
    mix = MIXES["default"]
    later = [plan_of(3, i, mix) for i in range(500, 600)]
    assert later == [plan_of(3, i, mix) for i in range(500, 600)]
    assert later != [plan_of(4, i, mix) for i in range(500, 600)]


def test_the_default_mix_has_the_shares_that_it_names():
    mix = MIXES["default"]
    found = Counter(plan_of(0, i, mix).kind for i in range(10_000))
    assert set(found) == set(KINDS)
    for kind, share in mix.shares.items():
        assert abs(found[kind] / 100 - share) < 1.5, found


def test_leavers_are_normal_in_a_control_phase_and_keep_their_stream():
    mix = MIXES["default"]
    for i in range(2000):
        plan, calm = plan_of(1, i, mix), plan_of(1, i, mix, leavers=False)
        assert plan.chunks == calm.chunks
        assert not calm.leaves and calm.reads == -1 and not calm.flight
        assert (plan.kind in LEAVING) == plan.leaves
        assert calm.kind == (plan.kind if not plan.leaves else "normal")


def test_what_lies_unread_follows_from_the_plan():
    for i in range(3000):
        plan = plan_of(2, i, MIXES["settled"])
        assert not plan.flight
        if plan.kind == "abort-before":
            assert plan.unread == plan.chunks
        elif plan.kind == "abort-mid":
            assert 1 <= plan.reads < plan.chunks and plan.unread == plan.chunks - plan.reads
        elif plan.kind == "stop-early":
            assert plan.unread == plan.chunks - plan.reads + 1  # the terminal lies there too
        else:
            assert plan.unread == 0


def test_shares_can_be_given():
    mix = mix_of("normal=3,abort-mid=1,least=4,most=4,frames=8,in-flight=0")
    plans = [plan_of(0, i, mix) for i in range(400)]
    assert {p.kind for p in plans} == {"normal", "abort-mid"}
    assert {p.chunks for p in plans} == {4} and {p.frames for p in plans} == {8}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("defualt", "default"),
        ("abort-middle=1", "abort-mid"),
        ("early-stop=1", "'stop-early'"),
        ("normal=many", "number"),
        ("normal=1,abort-mid", "number"),
        ("normal=nan", "number"),
        ("normal=inf", "number"),
        ("normal=-1", "number"),
        ("normal=1,normal=2", "twice"),
        ("normal=1,least=inf", "whole number from 0 to 10,000, got 'inf'"),
        ("normal=1,least=nan", "whole number"),
        ("normal=1,least=2.5", "whole number"),
        ("normal=1,most=1e9", "whole number"),
        ("normal=1,frames=1e300", "whole number"),
        ("normal=1,in-flight=7", "in-flight"),
        ("normal=0", "positive"),
        ("normal=1,least=5,most=2", "least"),
        ("abort-mid=1,least=1", "least=2"),
    ],
)
def test_a_mix_that_cannot_be_is_refused(text, word):
    with pytest.raises(UsageError, match=word):
        mix_of(text)
