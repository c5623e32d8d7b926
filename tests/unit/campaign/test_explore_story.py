"""Stories: at most a dozen lines, the switches among them; promoted orders follow the trace."""

from omni_verify.campaign.explore.exploration import Row
from omni_verify.campaign.explore.promote import boundaries
from omni_verify.campaign.explore.story import MAX_ROWS, rows_of_events, shorten
from omni_verify.trace.event import Event


def events(*texts: str) -> list[Event]:
    made = []
    for seq, text in enumerate(texts):
        actor, point, key = text.split()
        made.append(Event(seq, actor, point, "" if key == "-" else key))
    return made


def test_noise_and_the_tear_down_are_left_out_and_pairs_joined():
    rows = rows_of_events(
        events(
            "save idle.save producer",
            "client abort.enter R",
            "client abort.exit R",
            "save lock.flock.enter Q_1_0",
            "recv get.enter R_1_0",
            "recv get.exit R_1_0",
            "save put.enter R_1_0",
            "main close.enter -",
            "save put.exit R_1_0",
        ),
        {"R"},
    )
    assert [(r.actor, r.point, r.key) for r in rows] == [
        ("client", "abort", "R"),
        ("save", "put.enter", "R_1_0"),
    ]


def test_a_vain_get_that_another_actor_met_or_that_removed_something_is_told():
    met = rows_of_events(
        events(
            "reader get.enter R_1_0",
            "writer put.enter R_1_0",
            "writer put.exit R_1_0",
            "reader get.exit R_1_0",
        ),
        {"R"},
    )
    assert [(r.actor, r.point) for r in met] == [
        ("reader", "get.enter"),
        ("writer", "put"),
        ("reader", "get.exit"),
    ]
    alone = [
        "reader get.enter R_1_0",
        "reader lock.remove.enter R_1_0",
        "reader lock.remove.exit R_1_0",
        "reader get.exit R_1_0",
    ]
    assert [r.point for r in rows_of_events(events(*alone), {"R"})] == [
        "get.enter",
        "lock.remove",
        "get.exit",
    ]
    assert rows_of_events(events(alone[0], alone[-1]), {"R"}) == []


def test_a_long_story_keeps_its_switches_in_order():
    rows = [Row(i, "a" if i < 40 else "b", "save", "R") for i in range(80)]
    kept = shorten(rows, {"R"})
    assert len(kept) == MAX_ROWS
    assert [r.step for r in kept] == sorted(r.step for r in kept)
    assert {39, 40} <= {r.step for r in kept}


def test_orders_lie_at_the_switches_and_count_occurrences():
    rows = [
        Row(e.seq, e.actor, e.point, e.key)
        for e in events(
            "talker put.enter R_1_0",
            "talker put.exit R_1_0",
            "main mark x",
            "save idle.save producer",
            "client abort.enter R",
            "talker put.enter R_1_0",
            "main close.enter -",
            "client abort.exit R",
        )
    ]
    assert boundaries(rows) == [
        "talker:put.exit(R_1_0) < client:abort.enter(R)",
        "client:abort.enter(R) < talker:put.enter(R_1_0)#2",
    ]
