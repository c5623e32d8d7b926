"""Splits a text into the words that get a time of their own."""

from __future__ import annotations

__all__ = ["AUDIO_PLACEHOLDER", "TIMESTAMP", "aligner_prompt", "segment_words"]

AUDIO_PLACEHOLDER = "<|audio_start|><|audio_pad|><|audio_end|>"
TIMESTAMP = "<timestamp>"
UNSPACED = ("zh", "ja", "th", "yue", "chinese", "japanese", "thai", "cantonese")


def segment_words(text: str, language: str | None = None) -> list[str]:
    """Split at white space; languages that write none give every character a time.

    Args:
        text: the spoken text.
        language: language code or name; None means one that puts spaces between words.
    """
    if (language or "").lower().split("-")[0] in UNSPACED:
        return [char for char in text if char.isalnum()]
    return text.split()


def aligner_prompt(words: list[str]) -> str:
    """Return the aligner's prompt: the audio, then each word with its start and end marker."""
    return AUDIO_PLACEHOLDER + "".join(word + TIMESTAMP * 2 for word in words)
