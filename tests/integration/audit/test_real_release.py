"""What a real release leaves, as the audit sees it: vllm-omni closes a segment right after it is written."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from omni_verify.audit import namespace

ROOT = Path(__file__).parents[3]

PROGRAM = textwrap.dedent(
    """
    import json, os, subprocess, sys
    from omni_verify.audit import Scope, clean, namespace, take_audit
    from omni_verify.audit.process import descendants
    from omni_verify.campaign.kills.driver import wait_ended

    SENDER = '''
    import signal, sys
    from omni_verify.errors import TargetUnusableError
    from omni_verify.targets import resolve
    target = resolve(sys.argv[1], loader='isolated')
    try:
        target.prepare()
    except TargetUnusableError as error:
        sys.exit(str(error))
    target.load()
    connector = target.create_connector(1)
    import torch
    for chunk in range(3):
        assert connector.put('1', '2', f'R_1_{chunk}', target.payload(torch.arange(64)))[0]
    assert connector.get('1', '2', 'R_1_0') is not None
    print('ready', flush=True)
    signal.pause()
    '''

    def seen(audit):
        return {f.item.name: f.judgement for f in audit.findings}

    namespace.enter()
    import textwrap
    sender = subprocess.Popen(
        [sys.executable, '-c', textwrap.dedent(SENDER), sys.argv[1]], stdout=subprocess.PIPE, text=True
    )
    if sender.stdout.readline() != 'ready\\n':
        sys.exit(77)
    below = [child.pid for child in descendants(sender.pid)]
    alive = seen(take_audit())
    sender.kill()
    sender.wait()
    wait_ended(below)
    dead = take_audit()
    removed = [r.name for r in clean(dead.orphans, Scope()) if not r.kept]
    print(json.dumps([alive, seen(dead), removed, os.listdir('/dev/shm')]))
    """
)


@pytest.mark.network
@pytest.mark.skipif(namespace.available() is not None, reason="no private /dev/shm here")
def test_unread_chunks_of_0_28_0_are_no_orphans_while_it_lives_and_its_lock_files_are_afterwards():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "vllm-omni==0.28.0"],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode == 77:
        pytest.skip(f"the release cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stderr
    alive, dead, removed, left = json.loads(done.stdout)
    names = {f"R_1_{k}" for k in (1, 2)}
    locks = {f"shm_{name}_lockfile.lock" for name in names}
    assert alive == dict.fromkeys(names | locks, "unread"), "chunk 0 was consumed, the others wait"
    # The resource tracker of Python before 3.13 unlinks the segments of the killed sender; nobody the locks.
    assert {name for name in dead if name in locks} == locks
    assert set(dead.values()) == {"orphan"}
    assert sorted(removed) == sorted(dead)
    assert left == []
