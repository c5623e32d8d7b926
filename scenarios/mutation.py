"""What seeded bugs showed to be missing elsewhere in the catalogue."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario(
    "mutation/put-raises-after-abort", invariants=("I31", "I51"), source="vllm-omni#8082; article section 5.5"
)
def put_raises_after_abort(s: Script) -> None:
    """The client leaves while the first chunk is written, and then the put creates its segment and raises.
    The key belongs to the cancelled range although its put never succeeded: nothing is left."""
    producer = s.producer()
    producer.admit("R")
    fault = s.fail_put("R_1_0", created=True, raises=True)
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "abort.exit(R) < seg.write.enter(R_1_0)", blocked="I29")
    s.drain(producer)
    s.expect("I31", fault.struck, "the fault struck", found=fault.struck)


@scenario("mutation/first-stage-abort", invariants=("I39", "I51"), source="vllm-omni#6352")
def first_stage_abort(s: Script) -> None:
    """The client leaves while stage 0, which receives nothing, has a chunk unread and frames in hand. Its
    sender state goes as on any other stage."""
    thinker = s.stage(0, "thinker", chunk=4)
    thinker.admit("R")
    thinker.emit("R", 4)
    thinker.emit("R", 3)
    s.drain(thinker)
    s.expect(
        "I39", thinker.adapter.code_prompt_token_ids, "the sender holds frames", found="nothing was held"
    )
    s.actor("client", thinker.abort, "R")
    s.run()
