"""Follow one codec frame from the Talker to the client, in the log lines of the reference pipeline.

    python examples/follow_one_frame.py            # frame 10 of a request of 79 frames
    python examples/follow_one_frame.py 60

Thinker, Talker and Code2Wav run in this process (mode "inline"), so that one log has all of them; the
transfers still go through /dev/shm and the adapters' own threads. docs/tutorials/follow-one-frame.md
explains every line.
"""

from __future__ import annotations

import argparse
import logging
import uuid

from omni_verify.pipeline.models import tokenizer
from omni_verify.pipeline.orchestration.pipeline import Pipeline
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs

FRAMES = 79
CLIENT = logging.getLogger("client")


class Recorder(logging.Handler):
    """Keep every record, in the order of the calls."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def run_request(request_id, recorder):
    """Run one request of 79 frames, as a client that streams."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG)
    root.addHandler(recorder)
    heard = 0
    with Pipeline(load_configs(LaunchOptions(mode="thread")), mode="inline") as pipeline:
        params = pipeline.params()
        for each in params:
            each.extra_args["frames"] = FRAMES
        prompt = {"prompt_token_ids": tokenizer.chat_prompt([{"role": "user", "content": "Hello"}])}
        for message in pipeline.generate(request_id, prompt, params):
            audio = message.output.outputs[0].multimodal_output.get("audio")
            if audio is not None:
                CLIENT.info("%s: samples [%d, %d)", request_id, heard, heard + audio.numel())
                heard += audio.numel()


def windows_of(records):
    """Return the records of the chunks that were cut, with frame ranges, in order."""
    return [r for r in records if r.name.endswith("talker2code2wav") and isinstance(r.args[2], tuple)]


def way_of(records, frame):
    """Choose the records of one frame, in the order of its way; the threads log independently.

    First it joins its segment, then the chunk that carries it as new goes to the client, and at last it
    travels again as context of later chunks.
    """
    windows = windows_of(records)
    number = next(k for k, r in enumerate(windows) if r.args[2].last > frame)
    nth = slice(number, number + 1)
    cuts = [r for r in records if r.name.endswith("talker2code2wav")]
    routed = [r for r in records if r.msg.startswith("%s: output of stage") and r.args[1] == 2]
    way = [
        *[r for r in cuts if r.args[1] == frame + 1][:1],
        *windows[nth],
        *matching(records, "Stage %d puts %s", 1)[nth],
        *matching(records, "Stage %d received %s", 2)[nth],
        *[r for r in records if r.name.endswith("stages.runners")][nth],
        *matching(records, "stage %d: ran %s", 2)[nth],
        *routed[nth],
        *[r for r in records if r.name == CLIENT.name][nth],
        *[r for r in windows[number + 1 :] if r.args[2].first <= frame],
    ]
    return list(dict.fromkeys(way))  # a chunk's last frame joins and leaves in one line


def matching(records, template, stage):
    """Return the records of one stage with this message; a step that ran nobody is none."""
    return [r for r in records if r.msg == template and r.args[0] == stage and (r.args[1] != {})]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frame", nargs="?", type=int, default=10, choices=range(FRAMES), metavar="FRAME")
    frame = parser.parse_args().frame
    recorder, request_id = Recorder(), f"R{uuid.uuid4().hex[:8]}"
    run_request(request_id, recorder)
    for record in way_of(recorder.records, frame):
        where = record.name.removeprefix("omni_verify.pipeline.")
        print(f"{record.threadName:<10} {where:<36} {record.getMessage().replace(request_id, 'R')}")


if __name__ == "__main__":
    main()
