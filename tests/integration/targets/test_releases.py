"""Real releases and the reference carry one stream from adapter to adapter without vllm or a GPU."""

import os
import subprocess
import sys
import textwrap
import uuid

import pytest

from omni_verify.contracts.keys import wake_directory

PROGRAM = textwrap.dedent(
    """
    import json, sys, threading, time
    sys.path[:] = json.loads(sys.argv[3])
    import torch
    from omni_verify.audit import container_sizes, find_entries, scan
    from omni_verify.targets import resolve
    from omni_verify.targets import points

    spec, prefix = sys.argv[1:3]
    target = resolve(spec)
    target.load()
    heavy = sorted(
        name for name, module in sys.modules.items()
        if name.split(".")[0] in ("vllm", "transformers", "ray") and getattr(module, "__file__", None)
    )
    extra = {"wakeup_scope": prefix}
    sender = target.create_adapter(1, worker_type="ar", receives=False, extra=extra)
    receiver = target.create_adapter(2, extra=extra)

    def processor(transfer_manager, multimodal_output, request, is_finished=False, **more):
        codes = None if multimodal_output is None else torch.tensor(multimodal_output)
        return target.payload(codes, 0)

    target.set_processor(sender, processor)
    ext = prefix + "R"
    source = target.create_request("source", ext)
    sink = target.create_request("sink", ext)
    source.status = target.status("RUNNING")

    def arrived(wanted):
        receiver.load_async(sink)
        deadline = time.monotonic() + 30
        while "sink" not in receiver._finished_load_reqs:
            if time.monotonic() > deadline:
                sys.exit(f"chunk {wanted} did not arrive")
            time.sleep(0.001)
        receiver._finished_load_reqs.discard("sink")
        return list(sink.prompt_token_ids)

    source.num_computed_tokens = 1
    sender.save_async([5, 6, 7], source)
    first = arrived(0)
    source.num_computed_tokens = 2
    source.status = target.status("FINISHED_STOPPED")
    sender.save_async([8], source)
    second = arrived(1)
    done = receiver.is_done_receiving_chunks("sink")
    listed = points.module_points(target), points.connector_points(target, sender.connector)
    missing = points.missing_operations(listed[0], points.MODULE_OPERATIONS)
    missing += points.missing_operations(listed[1], points.CONNECTOR_OPERATIONS)
    missing += points.missing_operations(points.adapter_points(target, sender), points.ADAPTER_OPERATIONS)
    receiver.cleanup("sink", ext)
    sender.cleanup("source", ext)
    for adapter in (sender, receiver):
        adapter.shutdown()
        for thread in (adapter.save_thread, adapter.recv_thread):
            thread.join(10)
    roots = {"receiver": receiver}
    left = [str(e) for e in find_entries(roots, ["sink", ext], known=["source"])]
    residue = [e.name for e in scan(prefix).entries]
    wire = target.serialize(target.payload(torch.arange(4), 0))
    info = target.info
    print(json.dumps(dict(
        name=info.name, version=info.version, loader=info.loader, capabilities=info.capabilities, heavy=heavy,
        first=first, second=second, done=done, missing=missing, left=left, residue=residue, wire=len(wire),
        threads=torch.get_num_threads(), containers=len(container_sizes(roots)),
    )))
    """
)
BASE = {"adapter", "connector", "posix_shm", "forkable", "active_stream_window"}
FAILURES = {"deadline", "send_failures", "receive_failures"}
RELEASES = {
    "0.26.0": (BASE, {"seg.fill", "cleanup_prefix", "reap", "commit", "release"}),
    "0.28.0": (BASE | FAILURES, {"seg.fill", "cleanup_prefix", "reap", "release"}),
    "0.30.0": (BASE | FAILURES | {"reap", "forced_terminal"}, {"seg.fill", "cleanup_prefix", "release"}),
    # The newest one that there is: stands for the checkout of tomorrow (arrival hints, release by prefix).
    "0.32.0rc1": (
        BASE | FAILURES | {"reap", "forced_terminal", "cleanup_prefix", "release", "wakeups"},
        {"seg.fill"},
    ),
}


def carry(spec):
    """Run one stream of `spec` in a process of its own and return what it reports."""
    import json

    prefix = f"ov{uuid.uuid4().hex[:10]}"
    argv = [sys.executable, "-c", PROGRAM, spec, prefix, json.dumps(sys.path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    wake = os.path.basename(wake_directory(os.getuid(), os.getpid()))  # releases have one for each launcher
    assert not [name for name in os.listdir("/dev/shm") if prefix in name or name == wake]
    return json.loads(done.stdout.splitlines()[-1])


def check_stream(told):
    assert told["first"] == [5, 6, 7]
    assert told["second"] == [8]
    assert told["done"]
    assert told["residue"] == []
    assert told["threads"] == 1
    assert told["wire"] > 60
    assert told["containers"] > 10


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("version", RELEASES)
def test_a_release_loads_isolated_and_streams(version):
    told = carry(f"vllm-omni=={version}")
    check_stream(told)
    capabilities, missing = RELEASES[version]
    assert (told["name"], told["version"], told["loader"]) == ("vllm-omni", version, "isolated")
    assert set(told["capabilities"]) == capabilities
    assert set(told["missing"]) == missing
    assert told["heavy"] == []


@pytest.mark.slow
def test_the_reference_streams_with_every_capability():
    told = carry("reference")
    check_stream(told)
    assert told["left"] == []
    assert told["missing"] == ["seg.size"]
    extras = {"reap", "cleanup_prefix", "release", "wakeups", "forced_terminal"}
    assert set(told["capabilities"]) == BASE | FAILURES | extras


@pytest.mark.network
def test_a_version_that_does_not_exist_names_the_nearest():
    from packaging.version import Version

    from omni_verify.errors import TargetUnusableError
    from omni_verify.targets import resolve

    with pytest.raises(TargetUnusableError) as raised:
        resolve("vllm-omni==0.27.99").prepare()
    told = str(raised.value)
    assert "Nearest: " in told
    near = told.split("Nearest: ")[1].split(" (")[0].split(", ")
    assert all(Version("0.20") < Version(v) < Version("0.31") for v in near)
