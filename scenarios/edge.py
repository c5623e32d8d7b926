"""Edge: what is special at the first stage, and at the last frames of a stream."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("edge/two-ids-of-one-request", invariants=("I28",), source="vllm#42839; vllm-omni#2048")
def two_ids(s: Script) -> None:
    """The first stage knows a request by an internal id of its own, the next by another. The key is
    made of the external id at both ends, so that the one reads what the other wrote."""
    thinker, talker = s.stage(0, "thinker"), s.stage(1, "talker", worker_type="ar")
    first = thinker.admit("R")
    second = talker.admit("R", internal=s.external("another-name"))
    s.expect("I28", first.internal not in (first.external, second.internal), "the two stages use two ids")
    for _ in range(2):
        thinker.emit("R", 4)
    thinker.end("R", 1)
    s.drain(thinker)
    segments = [n for n in s.shm() if not n.startswith("shm_")]
    s.expect(
        "I28", segments == ["R_0_0", "R_0_1", "R_0_2"], "keys are made of the external id", found=segments
    )
    talker.consume("R")
    frames = second.got.frames
    s.expect("I28", len(frames) == 9, "the next stage reads all of it", expected="9 frames", found=frames)


@scenario("edge/first-stage-abort", invariants=("I39", "I51"), source="vllm-omni#6352; vllm-omni#4349")
def first_stage_abort(s: Script) -> None:
    """A request is aborted at the first stage, which receives nothing, with a chunk unread and frames
    only accumulated: its sender state goes as on any other stage."""
    thinker = s.stage(0, "thinker", chunk=4)
    for label in ("R", "Q"):
        thinker.admit(label)
        thinker.emit(label, 4)
        thinker.emit(label, 2)
    s.drain(thinker)
    s.expect(
        "I39", thinker.adapter.code_prompt_token_ids, "the sender holds frames", found="nothing was held"
    )
    s.actor("client", thinker.abort, "R", "Q")
    s.run()


@scenario("edge/tail-is-flushed", invariants=("I13", "I14"), source="vllm-omni#5413; vllm-omni#5414")
def tail_is_flushed(s: Script) -> None:
    """The stream ends when fewer frames are in hand than a chunk has. The terminal flushes them: with
    it, before it, or both, but none is lost."""
    producer, consumer = s.pair(chunk=4)
    for label, frames in (("whole", 8), ("short", 3), ("tail", 6), ("none", 0)):
        producer.admit(label)
        consumer.admit(label)
        for _ in range(frames):
            producer.emit(label, 1)
        producer.end(label)
        consumer.consume(label)
        got = consumer.handle(label).got
        s.expect(
            "I13",
            len(got.frames) == frames,
            f"{label}: every frame arrives",
            expected=f"{frames}",
            found=got.frames,
        )
        s.expect(
            "I14", got.finishes == 1, f"{label}: the stream ends", found=f"{got.finishes} ends", key=label
        )
