"""One stage on its own: releases, failures, and what a successor finds of its predecessor."""

from __future__ import annotations

import os
import threading
import uuid

import pytest
import torch

from omni_verify.contracts.keys import SHM_ROOT, build_key, lock_path, segment_path
from omni_verify.pipeline.models import Thinker, ThinkerEngine
from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.scheduling import OmniARAsyncScheduler, OmniARScheduler, RunnerOutput
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
from omni_verify.pipeline.stages.build import StageSpec, build_core
from omni_verify.pipeline.stages.core import StageCore
from omni_verify.pipeline.stages.dead_fifos import remove_dead_fifos
from omni_verify.pipeline.stages.messages import (
    FinishReason,
    StageDied,
    StageRequest,
    TransferReleased,
    TransferSent,
)
from omni_verify.pipeline.stages.params import SamplingParams
from omni_verify.pipeline.stages.reclaim import leftover_chunk_ids, reclaim_request
from omni_verify.pipeline.stages.runners import ArRunner
from omni_verify.pipeline.stages.threaded import ThreadedStage

torch.set_num_threads(1)
BOUND_S = 120


class EchoRunner:
    """Give every request one token a step."""

    def __init__(self):
        self.steps = []

    def admit(self, request):
        pass

    def execute(self, scheduled):
        self.steps.append(list(scheduled.num_scheduled_tokens))
        return {rid: RunnerOutput(token_ids=[7]) for rid in scheduled.num_scheduled_tokens}

    def close(self):
        pass


def stage_request(rid, **params):
    return StageRequest(rid, rid, [1, 2], SamplingParams(**params), final_stage_id=2)


def outputs(core):
    return [event for event in core.take_events() if not isinstance(event, TransferReleased)]


def plain_core(runner=None, kind=OmniARScheduler):
    return StageCore(0, kind(0, None), runner or EchoRunner(), None)


def test_a_failing_model_fails_the_scheduled_requests_only():
    core = plain_core()
    core.add(stage_request("A"))
    core.runner.execute = lambda scheduled: 1 / 0
    core.tick()
    (event,) = outputs(core)
    assert (event.finish_reason, event.finished) == (FinishReason.ERROR, True)
    assert "ZeroDivisionError" in event.error
    assert not core.busy()


def test_a_request_that_the_engine_refuses_fails_alone():
    core = plain_core(ArRunner(ThinkerEngine(Thinker()), receives_payloads=False))
    core.add(StageRequest("bad", "bad", [], SamplingParams(), final_stage_id=2))
    core.add(stage_request("good", max_tokens=2))
    events = run_to_end(core)
    assert [(e.request_id, e.error) for e in events if e.finish_reason is FinishReason.ERROR] == [
        ("bad", "request 'bad' has an empty prompt; give at least one token")
    ]
    assert sum(len(e.token_ids) for e in events if e.request_id == "good") == 2
    assert core.runner.engine.live_requests() == frozenset()


def test_a_duplicate_is_refused_by_an_error_output():
    core = plain_core()
    core.add(stage_request("A"))
    core.add(stage_request("A"))
    (event,) = outputs(core)
    assert "already live" in event.error
    assert list(core.scheduler.requests) == ["A"]


def run_to_end(core, bound=50):
    events = []
    for _ in range(bound):
        core.tick()
        events += outputs(core)
        if not core.busy():
            return events
    raise AssertionError("the stage did not come to rest")


@pytest.mark.parametrize("kind", [OmniARScheduler, OmniARAsyncScheduler])
def test_looking_ahead_changes_no_result(kind):
    core = plain_core(kind=kind)
    for rid, limit in (("A", 2), ("B", 4)):
        core.add(stage_request(rid, max_tokens=limit))
    events = run_to_end(core)
    tokens = [(event.request_id, token) for event in events for token in event.token_ids]
    assert sorted(tokens) == [("A", 7)] * 2 + [("B", 7)] * 4
    assert [e.finish_reason for e in events if e.finished] == [FinishReason.LENGTH] * 2


def test_looking_ahead_counts_placeholders_and_drops_what_belongs_to_an_earlier_owner():
    core = plain_core(kind=OmniARAsyncScheduler)
    core.add(stage_request("A", max_tokens=9))
    core.tick()
    old = core.scheduler.requests["A"]
    assert (old.num_output_placeholders, old.num_computed_tokens) == (1, 1)
    core.scheduler.finish_requests(["A"], RequestStatus.FINISHED_ABORTED)
    core.add(stage_request("A", max_tokens=9))
    core.tick()
    assert (outputs(core), old.num_output_placeholders) == ([], 0)
    assert core.scheduler.requests["A"].output_token_ids == []


def test_a_stage_without_edges_answers_a_release_at_once():
    core = plain_core()
    core.release(["A", "B"])
    core.tick()
    assert core.take_events() == [TransferReleased(0, ("A", "B"))]


@pytest.fixture
def prefix():
    return f"ov{uuid.uuid4().hex[:10]}"


@pytest.fixture
def thinker(prefix):
    config = load_configs(LaunchOptions(mode="thread"))[0]
    core = build_core(StageSpec(config, wakeup_scope=prefix))
    yield core
    core.close()
    assert [name for name in os.listdir(SHM_ROOT) if prefix in name] == []


def tick_until(core, condition):
    """Tick until the condition holds; the stage's own threads do the waiting."""
    done = threading.Event()
    deadline = threading.Timer(BOUND_S, done.set)
    deadline.start()
    try:
        while not condition():
            assert not done.is_set(), "the condition did not come in time"
            core.tick()
            done.wait(0.001)  # lets the stage's own threads run; the condition decides, not the pause
    finally:
        deadline.cancel()


def test_release_is_answered_after_the_save_thread_has_run_it(thinker, prefix, monkeypatch):
    rid, entered, go_on = f"{prefix}-R", threading.Event(), threading.Event()
    connector = thinker.adapter.connector
    inner = connector.put

    def gated_put(**fields):
        entered.set()
        assert go_on.wait(BOUND_S)
        return inner(**fields)

    monkeypatch.setattr(connector, "put", gated_put)
    thinker.add(stage_request(rid, max_tokens=30))
    tick_until(thinker, entered.is_set)
    tick_until(thinker, lambda: not thinker.scheduler.has_requests())
    thinker.take_events()
    thinker.release([rid])
    for _ in range(20):
        thinker.tick()
    assert thinker.take_events() == [], "answered although a put of the stream is still running"
    go_on.set()
    answers = []
    tick_until(thinker, lambda: answers.extend(thinker.take_events()) or answers)
    assert answers == [TransferReleased(0, (rid,))]
    assert [name for name in os.listdir(SHM_ROOT) if rid in name] == []


def test_an_end_says_that_chunks_are_still_queued_and_later_that_they_are_put(thinker, prefix, monkeypatch):
    rid, entered, go_on, events = f"{prefix}-R", threading.Event(), threading.Event(), []
    inner = thinker.adapter.connector.put

    def gated_put(**fields):
        entered.set()
        assert go_on.wait(BOUND_S)
        return inner(**fields)

    monkeypatch.setattr(thinker.adapter.connector, "put", gated_put)
    thinker.add(stage_request(rid, max_tokens=30))
    tick_until(thinker, entered.is_set)
    tick_until(thinker, lambda: not thinker.scheduler.has_requests())
    for _ in range(20):
        thinker.tick()
    events += thinker.take_events()
    assert [event.unsent for event in events if event.finished] == [True]
    go_on.set()
    tick_until(thinker, lambda: events.extend(thinker.take_events()) or isinstance(events[-1], TransferSent))
    assert events[-1] == TransferSent(0, rid)
    assert "finished=True" in str(events[-2])
    thinker.release([rid])
    tick_until(thinker, lambda: TransferReleased(0, (rid,)) in thinker.take_events())


def test_abort_returns_while_a_put_is_running(thinker, prefix, monkeypatch):
    rid, entered, go_on = f"{prefix}-R", threading.Event(), threading.Event()
    inner = thinker.adapter.connector.put

    def gated_put(**fields):
        entered.set()
        assert go_on.wait(BOUND_S)
        return inner(**fields)

    monkeypatch.setattr(thinker.adapter.connector, "put", gated_put)
    thinker.add(stage_request(rid, max_tokens=2000))
    tick_until(thinker, entered.is_set)
    thinker.abort([rid])
    assert not go_on.is_set()
    assert not thinker.scheduler.has_requests()
    go_on.set()
    thinker.release([rid])
    tick_until(thinker, lambda: TransferReleased(0, (rid,)) in thinker.take_events())
    assert [name for name in os.listdir(SHM_ROOT) if rid in name] == []


def test_a_successor_removes_exactly_its_predecessors_chunks(prefix):
    rid, sibling = f"{prefix}-R", f"{prefix}-R_1"
    predecessor = SharedMemoryConnector({"stage_id": 1, "wakeup_scope": prefix})
    for ext, chunk in ((rid, 0), (rid, 3), (sibling, 2)):
        ok, _, _ = predecessor.put(
            from_stage="1", to_stage="2", put_key=build_key(ext, 1, chunk), data={"x": 1}
        )
        assert ok
    successor = SharedMemoryConnector({"stage_id": 1, "wakeup_scope": prefix})
    assert leftover_chunk_ids(rid, 1) == [0, 3]
    assert reclaim_request(successor, rid, 1) == 2
    assert leftover_chunk_ids(rid, 1) == []
    assert not os.path.exists(lock_path(build_key(rid, 1, 3)))
    assert os.path.exists(segment_path(build_key(sibling, 1, 2)))
    successor.close()
    predecessor.close()
    assert [name for name in os.listdir(SHM_ROOT) if prefix in name] == []


def test_chunks_of_an_odd_id_are_found_as_well(prefix):
    rid = f"{prefix}/odd"
    with SharedMemoryConnector({"stage_id": 1, "wakeup_scope": prefix}) as connector:
        connector.put(from_stage="1", to_stage="2", put_key=build_key(rid, 1, 5), data={"x": 1})
        assert leftover_chunk_ids(rid, 1) == [5]
        assert reclaim_request(connector, rid, 1) == 1
        assert leftover_chunk_ids(rid, 1) == []


def test_only_fifos_without_a_reader_are_removed(tmp_path):
    folder = tmp_path / "wake"
    folder.mkdir()
    for name in ("dead", "live"):
        os.mkfifo(folder / name)
    (folder / "owner").write_text("")
    reader = os.open(folder / "live", os.O_RDONLY | os.O_NONBLOCK)
    assert remove_dead_fifos(str(folder)) == 1
    assert sorted(os.listdir(folder)) == ["live", "owner"]
    os.close(reader)
    (folder / "owner").unlink()
    assert remove_dead_fifos(str(folder)) == 1
    assert not folder.exists()
    assert remove_dead_fifos(str(folder)) == 0


def test_a_thread_stage_reports_its_end_only_when_nobody_asked_for_it():
    notified = threading.Event()
    stage = ThreadedStage(plain_core())
    stage.set_notify(notified.set)
    stage.submit(stage_request("A", max_tokens=1))
    assert notified.wait(BOUND_S)
    assert [event.finished for event in stage.poll()] == [True]
    stage.close(BOUND_S)
    assert not stage.is_alive()
    assert not any(isinstance(event, StageDied) for event in stage.poll())


# -- sessions of several segments --------------------------------------------------------------


class Neighbours:
    """The stages before and behind one fed stage, as the two ends of its connector."""

    def __init__(self, scope, stage_id):
        self.stage_id = stage_id
        self.before = SharedMemoryConnector({"stage_id": stage_id - 1, "wakeup_scope": scope})
        self.behind = SharedMemoryConnector({"stage_id": stage_id + 1, "wakeup_scope": scope})

    def put(self, rid, number, payload):
        source = self.stage_id - 1
        ok, _, _ = self.before.put(
            from_stage=str(source),
            to_stage=str(source + 1),
            put_key=build_key(rid, source, number),
            data=payload,
        )
        assert ok

    def take(self, rid, number):
        source = self.stage_id
        found = self.behind.get(str(source), str(source + 1), build_key(rid, source, number))
        return None if found is None else found[0]

    def close(self):
        self.before.close()
        self.behind.close()


@pytest.fixture
def fed_stage(prefix):
    opened = []

    def build(stage_id):
        config = load_configs(LaunchOptions(mode="thread"))[stage_id]
        core = build_core(StageSpec(config, wakeup_scope=prefix, fed=True))
        opened.extend([core, Neighbours(prefix, stage_id)])
        return opened[-2:]

    yield build
    for each in opened:
        each.close()
    assert [name for name in os.listdir(SHM_ROOT) if prefix in name] == []


def ends(*, segment, stream):
    return {"is_segment_finished": torch.tensor(segment), "finished": torch.tensor(stream)}


def conditions(*, segment, stream):
    """One prompt position and two conditions of the Talker."""
    return {
        "embed": {"prefill": torch.ones(3, 16)},
        "ids": {"prompt": [0]},
        "meta": ends(segment=segment, stream=stream),
    }


def resumable(rid, stage_params=None):
    params = stage_params or SamplingParams(stop_token_ids=[2150])
    return StageRequest(rid, rid, [0], params, final_stage_id=2, resumable=True)


def test_a_talker_speaks_every_segment_of_a_session(fed_stage, prefix):
    core, neighbours = fed_stage(1)
    rid, chunks, events = f"{prefix}-R", [], []

    def chunk_arrived():
        events.extend(outputs(core))
        chunk = neighbours.take(rid, len(chunks))
        chunks.extend([chunk] if chunk is not None else [])
        return chunk is not None

    core.add(resumable(rid))
    for number, last in ((0, False), (1, True)):
        neighbours.put(rid, number, conditions(segment=True, stream=last))
        # A segment is two conditions of four frames: the first chunk of four, and the rest at its end.
        tick_until(core, chunk_arrived)
        tick_until(core, chunk_arrived)
        segment = chunks[-2:]
        assert [int(chunk["meta"]["left_context_size"]) for chunk in segment] == [0, 4]
        assert [chunk["codes"]["audio"].numel() // 16 for chunk in segment] == [4, 8]
        assert [bool(chunk["meta"]["is_segment_finished"]) for chunk in segment] == [False, not last]
        assert [bool(chunk["meta"]["finished"]) for chunk in segment] == [False, last]
    # Frame numbers (codebook 0) go on over the boundary: one request, nothing lost, nothing doubled.
    new = [chunk["codes"]["audio"][: chunk["codes"]["audio"].numel() // 16].tolist() for chunk in chunks]
    assert [row[context:] for row, context in zip(new, (0, 4, 0, 4), strict=True)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12, 13, 14, 15],
    ]
    tick_until(core, lambda: events.extend(outputs(core)) or not core.scheduler.has_requests())
    assert [event.segment_finished for event in events if event.segment_finished or event.finished] == [
        True,
        False,
    ]


def test_a_decoder_goes_on_after_a_segment(fed_stage, prefix):
    core, neighbours = fed_stage(2)
    rid, events = f"{prefix}-R", []
    core.add(resumable(rid, SamplingParams()))
    for number, last in ((0, False), (1, True)):
        codes = torch.arange(16 * 5) % 2048
        payload = {"codes": {"audio": codes}, "meta": ends(segment=True, stream=last)}
        payload["meta"]["left_context_size"] = 0
        neighbours.put(rid, number, payload)
        tick_until(core, lambda n=number: events.extend(outputs(core)) or len(events) > n)
    assert [event.multimodal_output["audio"].numel() for event in events] == [5 * 1920 - 555] * 2
    assert [(event.segment_finished, event.finished) for event in events] == [(True, False), (False, True)]
    assert not core.scheduler.has_requests()
