"""The trend verdict: what convicts, what acquits, and what leaves a question open."""

import msgspec
import pytest

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.settings import TrendSettings, settings_from
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.errors import UsageError
from omni_verify.verdict import Verdict


def answer(report, subject="stage0", question="per abort"):
    return next(j for j in report.judgements if (j.subject, j.question) == (subject, question))


def test_a_flat_series_holds_and_says_how_flat(soak):
    report = judge_trend(soak())
    assert report.verdict is Verdict.HELD, report.sentences
    assert report.findings == ()
    held = answer(report)
    assert held.upper < held.budget == 48
    assert "stage0.fds does not grow" in " ".join(report.sentences)


@pytest.mark.parametrize("size", [1_024, 46_080])
def test_a_leak_per_abort_is_found_with_its_size(soak, size):
    report = judge_trend(soak(per_abort=size))
    assert report.verdict is Verdict.VIOLATED
    found = answer(report)
    assert found.verdict is Verdict.VIOLATED
    assert abs(found.estimate - size) < 0.1 * size
    assert found.lower <= size <= found.upper
    assert [f.invariant for f in report.findings] == ["I52"]
    assert answer(report, "stage1").verdict is Verdict.HELD
    assert report.sentences[0] == found.sentence


@pytest.mark.parametrize("seed", range(8))
def test_a_small_leak_per_abort_never_holds(soak, seed):
    assert answer(judge_trend(soak(per_abort=64, seed=seed))).verdict is not Verdict.HELD


def test_a_leak_per_request_is_not_blamed_on_aborts(soak):
    report = judge_trend(soak(per_request=500))
    found = answer(report, question="per request")
    assert found.verdict is Verdict.VIOLATED
    assert abs(found.estimate - 500) < 50
    assert answer(report).verdict is not Verdict.VIOLATED


def test_a_leak_per_abort_is_not_blamed_on_requests(soak):
    report = judge_trend(soak(per_abort=46_080))
    assert all(j.verdict is not Verdict.VIOLATED for j in report.judgements if j.question == "per request")


def test_without_a_control_phase_growth_has_no_culprit_but_is_found(soak):
    report = judge_trend(soak(per_abort=46_080, control=False))
    assert answer(report).verdict is Verdict.INCONCLUSIVE
    assert answer(report, question="per request").verdict is Verdict.VIOLATED


def test_retained_memory_is_not_a_leak(soak):
    """vllm-omni#6462: 67 KB an abort of resident memory, and the allocator gave all of it back."""
    report = judge_trend(soak(retained=67_000))
    assert report.verdict is Verdict.HELD, report.sentences
    assert "retained by the allocator, not leaked" in answer(report).sentence


def test_residue_alone_does_not_convict_the_memory(soak):
    report = judge_trend(soak(extra=lambda i, c, a: {"stage0.containers": 1.0, "stage0.pending_keys": 1.0}))
    assert answer(report).verdict is Verdict.HELD
    assert {j.subject for j in report.judgements if j.verdict is Verdict.VIOLATED} == {
        "stage0.containers",
        "stage0.pending_keys",
    }


def test_a_large_trim_does_not_hide_a_leak_of_small_objects(soak):
    """What one trim gives back may be older than the growth; live objects show what the heap does not."""
    kept = soak(retained=67_000, extra=lambda i, c, a: {"stage0.blocks": 5e5 + a})
    assert answer(judge_trend(kept)).verdict is not Verdict.HELD
    unseen = soak(retained=67_000, without=("blocks",))
    assert answer(judge_trend(unseen)).verdict is not Verdict.HELD


def test_growth_of_resident_memory_alone_stays_open(soak):
    report = judge_trend(soak(retained=67_000, without=("heap_used", "blocks"), trims=False))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "allocator is not ruled out" in report.reason


def test_what_a_trim_does_not_give_back_is_a_leak(soak):
    report = judge_trend(soak(per_abort=10_000, without=("heap_used", "blocks")))
    assert report.verdict is Verdict.VIOLATED
    assert "a trim does not give it back" in report.reason


def test_a_slope_of_noise_is_no_leak_though_no_trim_gives_it_back(soak):
    """Seen in a soak of large chunks: blocks of 90 KB come and go, and nothing more is there at last."""
    series = soak(per_abort=10_000, without=("heap_used", "blocks"))
    calm = min(s.figures["stage0.rss"] for s in series.samples if s.phase != "warm-up")
    samples = [
        msgspec.structs.replace(
            s, figures={k: calm if k.endswith(("rss", "uss")) else v for k, v in s.figures.items()}
        )
        if s.phase in ("idle", "trim")
        else s
        for s in series.samples
    ]
    report = judge_trend(Series(facts={}, samples=tuple(samples)))
    assert answer(report).verdict is Verdict.INCONCLUSIVE, report.sentences


def test_a_heap_that_excludes_the_growth_is_believed(soak):
    """It is above its budget or may be, and still far below what resident memory says."""
    heap = lambda i, c, a: {"stage0.heap_used": 1e8 + 60 * a}  # noqa: E731
    judged = answer(judge_trend(soak(per_abort=10_000, without=("blocks",), extra=heap)))
    assert judged.verdict is Verdict.INCONCLUSIVE, judged.sentence
    assert "memory outside the heap" in judged.sentence


def test_a_leak_inside_free_memory_does_not_hold(soak):
    """Resident memory is flat because a small leak fills what the allocator holds free."""
    series = soak(per_abort=64)
    samples = [
        s.__class__(
            **{f: getattr(s, f) for f in s.__struct_fields__ if f != "figures"},
            figures={k: (2e8 if k.endswith(("rss", "uss")) else v) for k, v in s.figures.items()},
        )
        for s in series.samples
    ]
    report = judge_trend(Series(facts={}, samples=tuple(samples)))
    assert answer(report).verdict is not Verdict.HELD


def test_resident_memory_alone_acquits_only_of_what_it_would_have_shown(soak):
    report = judge_trend(soak(without=("heap_used", "blocks"), noise=0.0))
    held_back = answer(report)
    assert held_back.verdict is Verdict.INCONCLUSIVE
    assert held_back.needs > 0
    assert f"{held_back.needs:,} more aborts" in held_back.sentence


def test_noise_that_hides_the_budget_is_inconclusive_and_says_how_much_longer(soak):
    report = judge_trend(soak(noise=2e6))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any(j.needs > 0 for j in report.judgements)


def test_a_restarted_process_is_not_a_leak_and_its_leak_is_found(soak):
    assert judge_trend(soak(restart_at=200)).verdict is Verdict.HELD
    report = judge_trend(soak(per_abort=46_080, restart_at=200))
    assert abs(answer(report).estimate - 46_080) < 4_000


def test_a_growth_that_ends_is_a_working_set(soak):
    series = soak(extra=lambda i, c, a: {"stage0.rss": 2e8 + 1e4 * min(c, 5_000)})
    found = answer(judge_trend(series), question="per request")
    assert found.verdict is not Verdict.VIOLATED


def test_the_engines_own_process_is_not_judged(soak):
    report = judge_trend(
        soak(extra=lambda i, c, a: {"driver.rss": 1e8 + 1e5 * i, "latency.total.p50": 1.0 * i})
    )
    assert not {j.subject for j in report.judgements} & {"driver", "latency"}


@pytest.mark.parametrize("series", [Series(facts={}, samples=())])
def test_nothing_judged_is_inconclusive(series):
    report = judge_trend(series)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "nothing was judged" in report.reason


def test_a_series_cut_after_any_sample_can_be_judged(soak):
    series = soak(samples=120)
    for length in range(0, 120, 13):
        judge_trend(Series(facts={}, samples=series.samples[:length]))


def test_settings_refuse_what_cannot_be():
    for wrong in ({"confidence": 1.0}, {"minimum_blocks": 40}, {"abort_bytes": 0}, {"largest_cut": 1.0}):
        with pytest.raises(UsageError):
            TrendSettings(**wrong)


def test_settings_are_read_from_text():
    got = settings_from(
        ["abort_bytes=1e3", "block_statistic=minimum", "ignored=driver.*,x.*", "warm_up_requests=7"]
    )
    assert (got.abort_bytes, got.block_statistic, got.warm_up_requests) == (1000.0, "minimum", 7)
    assert got.ignored == ("driver.*", "x.*") and got.request_bytes == TrendSettings().request_bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abort_bytes=nan", "finite"),
        ("resident_slack=inf", "finite"),
        ("abort_byte=1", "Did you mean 'abort_bytes'?"),
        ("abort_bytes", "NAME=VALUE"),
        ("abort_bytes=", "NAME=VALUE"),
        ("abort_bytes=many", "abort_bytes: 'many' does not fit"),
        ("block_statistic=max", "block_statistic: 'max' does not fit"),
        ("confidence=2", "confidence must lie between"),
    ],
)
def test_a_wrong_setting_is_named(text, said):
    with pytest.raises(UsageError) as caught:
        settings_from([text])
    assert said in str(caught.value)


def test_a_process_that_came_up_late_warms_up_first(soak):
    """Its memory rises by megabytes while it loads: no request has added them."""

    def loading(i, completed, aborted):
        return {"stage0.rss": 2e8 + min(0, i - 60) * 5e6} if i >= 45 else {}

    series = soak(extra=loading)
    samples = tuple(
        Sample(
            seconds=s.seconds,
            phase=s.phase,
            completed=s.completed,
            aborted=s.aborted,
            quiescent=s.quiescent,
            figures={k: v for k, v in s.figures.items() if i >= 45 or not k.startswith("stage0.")},
        )
        for i, s in enumerate(series.samples)
    )
    assert answer(judge_trend(Series(facts={}, samples=samples))).verdict is Verdict.HELD
