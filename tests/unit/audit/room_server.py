"""Runs in a private /dev/shm: starts and kills real processes and audits them, as its parent says.

Not a test. Reads one JSON object a line, answers one a line. It loads neither torch nor a module for shared
memory, so it takes no part itself.
"""

import json
import os
import select
import signal
import subprocess
import sys

from omni_verify.audit import Scope, ServerTrees, clean, namespace, take_audit

PRELUDE = """
import ctypes, os, sys, signal, fcntl
from omni_verify.contracts import keys
os.chdir('/dev/shm')
def ready(): print('ready', flush=True)
def pause():
    while True: signal.pause()
def become(uid):
    os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
    # changing the user closed the process to others of that user; 4 is PR_SET_DUMPABLE
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
def put(key, data=b'x' * 10, lock=True):
    if lock: open(keys.lock_name(keys.file_name(key)), 'w').close()
    open(keys.file_name(key), 'wb').write(data)
"""


class Room:
    def __init__(self):
        self.actors, self.trees = {}, {}

    def start(self, script):
        program = [sys.executable, "-c", PRELUDE + script]
        actor = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        assert actor.stdout.readline() == "ready\n"
        self.actors[actor.pid] = actor
        return actor.pid

    def kill(self, pid):
        if pid in self.actors:
            actor = self.actors.pop(pid)
            actor.kill()
            actor.wait()
            actor.stdout.close()
        else:
            os.kill(pid, signal.SIGKILL)
            self.wait(pid)

    def wait(self, pid):
        """Wait for a process that need not be our child."""
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        assert select.select([fd], [], [], 60)[0], f"{pid} did not end"
        os.close(fd)

    def children(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]

    def follow(self, name, pids):
        self.trees[name] = ServerTrees(pids)

    def audit(self, follow=None, **scope):
        found = take_audit(Scope(**scope), self.trees.get(follow))
        return {
            "entries": {
                f.item.name: [f.judgement, list(f.reasons), [[h.pid, h.how] for h in f.holders]]
                for f in found.findings
            },
            "foreign": found.foreign,
            "out_of_scope": found.out_of_scope,
            "unreadable": [u.pid for u in found.unreadable],
            "trees": sorted(found.trees),
        }

    def remember(self, **scope):
        self.remembered = take_audit(Scope(**scope))

    def clean(self, meanwhile="", **scope):
        """Clean what `remember` found, after `meanwhile` has run."""
        exec(meanwhile, {})
        return {r.name: r.kept for r in clean(self.remembered.orphans, Scope(**scope))}

    def listing(self):
        return sorted(
            os.path.relpath(os.path.join(at, name), "/dev/shm")
            for at, folders, files in os.walk("/dev/shm")
            for name in (*folders, *files)
        )

    def reset(self):
        """Kill every actor and empty the folder."""
        for pid in list(self.actors):
            self.kill(pid)
        for name in reversed(self.listing()):
            path = os.path.join("/dev/shm", name)
            (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)
        self.trees.clear()

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr


def main():
    namespace.enter()
    room = Room()
    for line in sys.stdin:
        call = json.loads(line)
        answer = getattr(room, call["do"])(*call["args"], **call["options"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    room.reset()


main()
