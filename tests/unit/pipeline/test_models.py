"""The models: the same result alone, in pieces, in a batch; ends as scripted; dyed frames."""

from types import SimpleNamespace

import pytest
import torch

from omni_verify.pipeline.models import (
    POISON,
    ArRequest,
    PositionDecoder,
    Talker,
    TalkerEngine,
    Thinker,
    ThinkerEngine,
)
from omni_verify.pipeline.models.tokenizer import chat_prompt, decode, encode
from omni_verify.pipeline.processors import concat_outputs
from omni_verify.pipeline.processors.prompts import IM_END

PROMPT = chat_prompt([{"role": "user", "content": "hello"}])


def sampling(max_tokens=64, seed=None, temperature=0.0, stop=(), **extra):
    return SimpleNamespace(
        max_tokens=max_tokens, seed=seed, temperature=temperature, stop_token_ids=list(stop), extra_args=extra
    )


def run(engine, request_id="R"):
    outputs = []
    while engine.is_ready(request_id):
        outputs += engine.step([request_id])
        assert len(outputs) < 500
    return outputs


def think(max_prefill=512, prompt=PROMPT, **params):
    engine = ThinkerEngine(Thinker(), max_prefill)
    engine.add_request(ArRequest("R", list(prompt), sampling(**params)))
    return run(engine), engine


def tokens_of(outputs):
    return [token for output in outputs for token in output.new_token_ids]


def layers_of(outputs):
    return concat_outputs([output.multimodal_output for output in outputs])["hidden_states"]["layers"]


def test_the_thinker_has_a_row_for_every_position_but_the_last_token():
    outputs, engine = think()
    tokens = tokens_of(outputs)
    embed = layers_of(outputs)[0]
    assert len(embed) == len(PROMPT) + len(tokens) - 1 == outputs[-1].num_computed_tokens
    assert embed[:, 1].tolist() == list(range(len(embed)))
    assert embed[:, 2].tolist() == [float(t) for t in [*PROMPT, *tokens[:-1]]]
    assert len(set(embed[:, 0].tolist())) == 1
    assert (outputs[-1].finished, outputs[-1].finish_reason, tokens[-1]) == (True, "stop", IM_END)
    assert engine.live_requests() == frozenset()
    assert decode(tokens).strip().isascii()


@pytest.mark.parametrize("params", [{"tokens_per_step": 3}, {"max_prefill": 2}, {"max_prefill": 1}])
def test_pieces_and_multi_row_steps_change_nothing(params):
    whole, _ = think(dye=5)
    pieces, _ = think(dye=5, **params)
    assert tokens_of(pieces) == tokens_of(whole)
    for number, rows in layers_of(whole).items():
        assert torch.equal(layers_of(pieces)[number], rows)


def test_a_request_is_the_same_alone_and_beside_others():
    alone, _ = think()
    engine = ThinkerEngine(Thinker())
    for name in "RST":
        engine.add_request(ArRequest(name, [*PROMPT] if name == "R" else [ord(name)], sampling()))
    mine = []
    while engine.live_requests():
        mine += [o for o in engine.step(sorted(engine.live_requests())) if o.request_id == "R"]
    assert tokens_of(mine) == tokens_of(alone)


def test_the_seed_counts_only_where_something_is_sampled():
    by_seed = [tokens_of(think(seed=seed, temperature=0.9)[0]) for seed in (1, 1, 2)]
    assert by_seed[0] == by_seed[1] != by_seed[2]
    assert tokens_of(think(seed=1)[0]) == tokens_of(think(seed=2)[0])


def test_the_length_limit_and_stop_tokens_end_the_thinker():
    outputs, _ = think(max_tokens=3)
    assert (len(tokens_of(outputs)), outputs[-1].finish_reason) == (3, "length")
    stop = tokens_of(outputs)[1]
    outputs, _ = think(stop=[stop])
    assert (tokens_of(outputs)[-1], outputs[-1].finish_reason) == (stop, "stop")


def test_a_resumable_thinker_waits_between_segments():
    engine = ThinkerEngine(Thinker())
    engine.add_request(ArRequest("R", list(PROMPT), sampling(max_tokens=4), resumable=True))
    first = run(engine)
    assert (first[-1].segment_finished, first[-1].finished) == (True, False)
    engine.resume("R", encode("more"), resumable=False)
    second = run(engine)
    assert second[-1].finished
    assert len(tokens_of(second)) == 4
    assert layers_of(first + second)[0][:, 1].tolist() == list(range(second[-1].num_computed_tokens))


@pytest.mark.parametrize("engine", [ThinkerEngine(Thinker()), TalkerEngine(Talker())])
def test_a_live_id_is_refused_and_abort_frees_it(engine):
    engine.add_request(ArRequest("R", [1], sampling()))
    with pytest.raises(ValueError, match="'R' is live"):
        engine.add_request(ArRequest("R", [1], sampling()))
    engine.abort(["R", "unknown"])
    assert not engine.is_ready("R")
    assert engine.step(["R"]) == []
    engine.add_request(ArRequest("R", [1], sampling()))
    engine.abort(["R"])


def condition(*numbers):
    return torch.tensor([[float(n)] * 16 for n in numbers])


def talk(payloads, **params):
    engine = TalkerEngine(Talker())
    engine.add_request(ArRequest("R", [0], sampling(max_tokens=4096, dye=9, **params)))
    outputs = []
    for payload in payloads:
        engine.feed("R", payload)
        outputs += run(engine)
    return outputs, engine


def prefill(*numbers, prompt=1, finished=False):
    return {
        "embed": {"prefill": condition(*numbers)},
        "ids": {"prompt": [0] * prompt},
        "meta": {"finished": torch.tensor(finished)},
    }


def more(*numbers, finished=False):
    return {"embed": {"decode": condition(*numbers)}, "meta": {"finished": torch.tensor(finished)}}


def codes_of(outputs):
    return torch.cat([output.multimodal_output["codes"]["audio"] for output in outputs])


CHUNKED = [prefill(0, 10), more(11), more(12, 13), more(14, finished=True)]
WHOLE = [prefill(0, 10, 11, 12, 13, 14, finished=True)]


def test_the_talker_speaks_the_same_in_chunks_and_at_once():
    chunked, engine = talk(CHUNKED)
    whole, _ = talk(WHOLE)
    codes = codes_of(chunked)
    assert torch.equal(codes, codes_of(whole))
    assert engine.live_requests() == frozenset()
    assert not codes[0].any()
    assert codes[1:-1, 0].tolist() == list(range(20))
    assert codes[-1].tolist() == [2150] + [0] * 15
    assert (codes[1:-1, 1:] > 0).all()
    assert codes[:-1].max() < 2048
    assert tokens_of(chunked) == [*range(20), 2150]


def test_the_talker_waits_for_conditions_that_may_still_come():
    engine = TalkerEngine(Talker())
    engine.add_request(ArRequest("R", [0], sampling(max_tokens=None)))
    assert not engine.is_ready("R")
    engine.feed("R", prefill(0, 10))
    assert [o.new_token_ids for o in run(engine)] == [[], [0]]
    engine.feed("R", more(11))
    assert [o.new_token_ids for o in run(engine)] == [[1]]


def test_frames_carry_request_number_and_condition():
    base = codes_of(talk(WHOLE)[0])
    other_text = codes_of(talk([prefill(0, 10, 99, 12, 13, 14, finished=True)])[0])
    assert torch.equal(base[1], other_text[1])
    assert not torch.equal(base[2], other_text[2])
    engine = TalkerEngine(Talker())
    engine.add_request(ArRequest("R", [0], sampling(dye=8)))
    engine.feed("R", WHOLE[0])
    other_request = codes_of(run(engine))
    assert all(not torch.equal(a, b) for a, b in zip(base[1:-1], other_request[1:-1], strict=True))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_scripted_length_and_rows_a_step(rows):
    outputs, _ = talk(WHOLE, frames=7, tokens_per_step=rows)
    assert tokens_of(outputs) == [*range(7), 2150]
    assert max(len(output.new_token_ids) for output in outputs) == rows


def test_an_early_stop_needs_no_more_conditions():
    outputs, engine = talk(CHUNKED[:1], frames=1)
    assert not outputs[-1].finished
    engine.feed("R", more(11))
    assert run(engine)[-1].finish_reason == "stop"


def test_the_talkers_length_limit():
    engine = TalkerEngine(Talker())
    engine.add_request(ArRequest("R", [0], sampling(max_tokens=3)))
    engine.feed("R", WHOLE[0])
    outputs = run(engine)
    assert (tokens_of(outputs), outputs[-1].finish_reason) == ([0, 1, 2], "length")


def test_segments_of_the_talker_number_their_frames_on():
    engine = TalkerEngine(Talker())
    engine.add_request(ArRequest("R", [0], sampling(frames=2), resumable=True))
    engine.feed("R", {**prefill(0, 10, 11), "meta": {"is_segment_finished": torch.tensor(True)}})
    first = run(engine)
    assert (first[-1].segment_finished, first[-1].finished) == (True, False)
    engine.feed("R", prefill(0, 20, 21, finished=True))
    second = run(engine)
    assert tokens_of(first + second) == [0, 1, 2150, 2, 3, 2150]
    assert second[-1].finished


def test_a_talker_that_reads_text_needs_no_upstream():
    engine = TalkerEngine(Talker(), reads_text=True, frames_per_condition=1)
    engine.add_request(ArRequest("R", encode("abc"), sampling()))
    assert tokens_of(run(engine)) == [0, 1, 2, 2150]


def test_a_talker_whose_stream_ends_empty_ends_as_well():
    outputs, _ = talk([{"meta": {"finished": torch.tensor(True)}}])
    assert tokens_of(outputs) == [2150]
    assert outputs[-1].finished


def test_the_position_decoder_shows_missing_context_at_the_frame():
    decoder = PositionDecoder(1, 4, 1, 2)
    assert decoder(torch.arange(3).view(1, 1, 3)).flatten().tolist() == list(range(11))
    cut = decoder(torch.arange(5, 9).view(1, 1, 4)).flatten().tolist()
    assert cut[: 2 * 4 - 1] == [POISON] * 7
    assert cut[7:] == list(range(27, 35))
    gap = decoder(torch.tensor([[[0, 1, 3, 4]]])).flatten().tolist()
    assert gap[:7] == list(range(7))
    assert set(gap[7:]) == {POISON}


def test_prompts_are_turned_into_turns():
    prompt = chat_prompt([{"role": "system", "content": "s"}, {"role": "user", "content": "é"}])
    assert prompt == [151644, 8948, 115, 151645, 151644, 872, 195, 169, 151645, 151644, 77091]
    assert decode([*encode("é"), 256, 151645]) == "é ba"
