"""A soak of a server that somebody else runs: by HTTP, on loopback, measured by its processes."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.campaign.soak.run import soak
from omni_verify.verdict import Verdict

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server():
    command = [sys.executable, "-m", "omni_verify.cli.main", "serve", "--port", "0", "--log-level", "error"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            if found := re.search(r"http://[\d.]+:\d+", line):
                break
        else:
            raise AssertionError("the server did not start")
        yield found[0], process.pid
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.communicate(timeout=60)
        psutil.wait_procs(children, timeout=30)


@pytest.mark.slow
def test_a_server_is_loaded_left_and_measured(server, tmp_path):
    url, pid = server
    options = SoakOptions(
        url=url,
        pids=(pid,),
        requests=60,
        concurrency=4,
        mix="normal=40,abort-before=20,abort-mid=20,stop-early=10,reuse=10,least=2,most=4",
        quiesce_every=12,
        sample_s=0.3,
        idle_s=1.0,
        request_s=60.0,
    )
    outcome = soak(options, store=tmp_path, tell=lambda progress: None, emit=lambda event: None)
    counts = outcome.summary.counts
    assert counts.started == 60 and counts.failed == 0, outcome.cases[0].findings
    assert counts.aborted > 5 and counts.kinds["reuse"] > 0
    for case in outcome.cases:
        if case.id != "soak/trend":
            assert case.verdict is Verdict.HELD, case
    names = outcome.series.names()
    assert "server.rss" in names and "server-1.rss" in names  # its stages are its descendants
    assert outcome.summary.latency["first_audio"]["count"] >= counts.completed
