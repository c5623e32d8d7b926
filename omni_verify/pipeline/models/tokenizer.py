"""A tokenizer without a vocabulary file: bytes for what a client writes, syllables for what is answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omni_verify.pipeline.processors.prompts import ASSISTANT, IM_END, IM_START, SYSTEM, USER

__all__ = ["FIRST_SYLLABLE", "SYLLABLES", "chat_prompt", "decode", "encode"]

FIRST_SYLLABLE = 256
CONSONANTS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "ch", "sh")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ee", "ou")
SYLLABLES = tuple(f" {consonant}{vowel}" for consonant in CONSONANTS for vowel in VOWELS)
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}


def encode(text: str) -> list[int]:
    """Return one id per byte of the UTF-8 text."""
    return list(text.encode("utf-8"))


def decode(token_ids: Iterable[int]) -> str:
    """Return the text of tokens; control tokens and unknown ids have none."""
    out = bytearray()
    for token in token_ids:
        if 0 <= token < FIRST_SYLLABLE:
            out.append(token)
        elif token < FIRST_SYLLABLE + len(SYLLABLES):
            out += SYLLABLES[token - FIRST_SYLLABLE].encode()
    return out.decode("utf-8", errors="replace")


def chat_prompt(messages: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the Thinker's prompt: every message as a turn, then the opened turn of the assistant.

    Args:
        messages: mappings with ``role`` (system, user or assistant) and ``content`` (text).
    """
    tokens: list[int] = []
    for message in messages:
        tokens += [IM_START, ROLES[message["role"]], *encode(message["content"]), IM_END]
    return [*tokens, IM_START, ASSISTANT]
