"""``omni-verify serve``: the reference pipeline behind its API."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]


def serve(
    model: Annotated[
        str, typer.Option(help="Pipeline: qwen3_omni_moe (chat) or qwen3_tts.")
    ] = "qwen3_omni_moe",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8091,
    mode: Annotated[
        str, typer.Option(help="Where stages run: each in a process or each in a thread.")
    ] = "process",
    deploy_config: Annotated[
        Path | None, typer.Option(help="Deployment file; the shipped one of the pipeline by default.")
    ] = None,
    async_chunk: Annotated[
        bool | None,
        typer.Option("--async-chunk/--no-async-chunk", help="Overrule the deployment's chunk mode."),
    ] = None,
    forced_aligner: Annotated[
        str | None, typer.Option(help="Append a forced aligner of this name, for word timestamps.")
    ] = None,
    served_model_name: Annotated[
        str | None, typer.Option(help="Name that clients use; the pipeline's by default.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda (one stage a configured device), or a torch device for all.")
    ] = "cpu",
    input_wait_timeout: Annotated[
        float, typer.Option(help="Seconds that a stage waits for one chunk; 0 waits for ever.", min=0)
    ] = 600.0,
    max_input_tokens: Annotated[int, typer.Option(help="Longest prompt.", min=1)] = 32_768,
    log_level: Annotated[str, typer.Option(help="Log level of server and stages.")] = "info",
) -> None:
    """Serve the reference pipeline on an OpenAI-compatible API until SIGINT or SIGTERM.

    /v1/chat/completions, /v1/audio/speech, WebSocket /v1/audio/speech/stream, /v1/models, /health and
    /metrics. No GPU and no download is needed.
    """
    from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs, start_service
    from omni_verify.pipeline.serving.server import run_server

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = LaunchOptions(
        model=model,
        mode=mode,
        deploy_config=deploy_config,
        async_chunk=async_chunk,
        forced_aligner=forced_aligner,
        served_model_name=served_model_name,
        device=device,
        input_wait_timeout_s=input_wait_timeout,
        max_input_tokens=max_input_tokens,
    )
    configs = load_configs(options)
    code = run_server(
        lambda: start_service(options, configs),
        host,
        port,
        log_level=log_level.lower(),
        announce=lambda bound: typer.echo(f"Listening on http://{host}:{bound}"),
    )
    raise typer.Exit(code)
