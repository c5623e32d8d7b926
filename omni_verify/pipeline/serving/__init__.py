"""Serving: an OpenAI-compatible API in front of the pipeline.

`launch` turns choices into a service, `server` runs it, `app` has the routes. Nothing is imported here,
so that the parts without a web framework (`audio`, `trimming`) cost nothing.
"""

__all__: list[str] = []
