"""Serving: an OpenAI-compatible API in front of the pipeline."""

__all__: list[str] = []
