"""The soak's handle on the launcher, the parent of its stages: start, orders, news, end."""

from __future__ import annotations

import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from omni_verify.campaign.environment import child_environment
from omni_verify.campaign.soak.launcher import Exited, LauncherOptions, Ready, Spawned
from omni_verify.errors import TargetUnusableError
from omni_verify.harness.soak.messages import StageOptions

__all__ = ["StageParent"]

_LOG_TAIL = 4000
_END_S = 15.0
_MESSAGES = msgspec.msgpack.Decoder(Ready | Spawned | Exited)


class StageParent:
    """The launcher's process and the link to it.

    Attributes:
        link: None before `start`, and when the launcher is gone or told to go.
        pid: of the launcher; 0 before `start`.
    """

    def __init__(self) -> None:
        self.link: Connection | None = None
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, options: LauncherOptions, log: Path, load_s: float) -> None:
        """Start the launcher and wait until it has entered its namespace.

        Raises:
            TargetUnusableError: it did not, within `load_s` seconds; the message has the end of its log.
        """
        near, far = socket.socketpair()
        command = [sys.executable, "-m", "omni_verify.campaign.soak.launcher", str(far.fileno())]
        with far, log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, msgspec.json.encode(options).decode()],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C reaches the soak alone, which ends its stages in order
            )
        self.pid = self._process.pid
        self.link = Connection(near.detach())
        if not self.link.poll(load_s) or not isinstance(self.receive(), Ready):
            self.hang_up()
            tail = log.read_text(errors="replace")[-_LOG_TAIL:]
            raise TargetUnusableError(f"the parent of the stages did not come up.\n{tail}")

    def spawn(self, options: StageOptions) -> None:
        """Order the process of a stage."""
        assert self.link is not None
        self.link.send_bytes(msgspec.msgpack.encode(options))

    def receive(self) -> Ready | Spawned | Exited | None:
        """Read one message; None, and no link any more, when the launcher is gone."""
        assert self.link is not None
        try:
            message: Ready | Spawned | Exited = _MESSAGES.decode(self.link.recv_bytes())
        except (EOFError, OSError):
            self.hang_up()
            return None
        return message

    def hang_up(self) -> None:
        """Close the link; the launcher ends its stages and itself."""
        if self.link is not None:
            self.link.close()
        self.link = None

    def end(self) -> None:
        """Hang up and wait for the end of the process; kill it when it does not come."""
        self.hang_up()
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
