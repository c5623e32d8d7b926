"""Code2Wav, serving, and what is left over a long run."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I40",
        "Serving cuts cumulative audio in source samples, before resampling, and sends each sample once.",
        Scope.SERVING,
        "article section 4.5; vllm-omni#7544",
    ),
    Invariant(
        "I41",
        "A request that needs cumulative output gets its own parameters; defaults and concurrent "
        "requests keep theirs.",
        Scope.SERVING,
        "article section 4.5; vllm-omni#7544",
    ),
    Invariant(
        "I42",
        "List and tensor outputs give the same bytes; a cumulative length that shrinks or stays "
        "emits nothing, then or later, twice.",
        Scope.SERVING,
        "article section 4.5",
    ),
    Invariant(
        "I42b",
        "Combinations that an endpoint does not support are refused before the engine does any work.",
        Scope.SERVING,
        "article section 4.5",
    ),
    Invariant(
        "I47",
        "The streamed waveform equals the one-shot decoding when the context is long enough; its "
        "length is exactly frames * upsampling - tail, and cuts meet without gap or overlap.",
        Scope.CODE2WAV,
        "article section 3.8; vllm-omni#4706",
    ),
    Invariant(
        "I47b",
        "Offline decoding in windows obeys the same law for any number of frames.",
        Scope.CODE2WAV,
        "article section 3.8",
    ),
    Invariant(
        "I48",
        "The result of a request does not depend on its batch mates, their lengths or their missing "
        "metadata.",
        Scope.CODE2WAV,
        "article section 3.8",
    ),
    Invariant(
        "I49",
        "The aligner is called once for a request, on the complete waveform: all emitted samples.",
        Scope.CODE2WAV,
        "article section 4.4; vllm-omni#7544",
    ),
    Invariant(
        "I51",
        "At quiescence there is no segment, no lock file, no FIFO but of live receivers, no pending "
        "key and no adapter state.",
        Scope.LEAKS,
        "article section 5.9; vllm-omni#8082",
    ),
    Invariant(
        "I52",
        "Memory of the stage processes, and of any tracker process, has no trend over many requests.",
        Scope.LEAKS,
        "article section 5.9; vllm-omni#6352",
    ),
    Invariant(
        "I53",
        "After both sides closed nothing of the run remains; after a kill, what remains matches the "
        "documented names, is removed by the run's cleanup, and does not hinder the next start.",
        Scope.LEAKS,
        "article section 5.9",
    ),
)
