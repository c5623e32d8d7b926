"""The soak's connections to its stages: commands out, reports in."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection

from omni_verify.harness.soak.messages import Command, Hello, Report, decode_report, encode

__all__ = ["StageLinks"]


class StageLinks:
    """A door that stages knock at, and one connection for each that has.

    A connection that breaks is dropped without a word: the launcher says how its stage ended.

    Attributes:
        door: listening socket, ready when a stage knocks.
        by_stage: the open connections.
    """

    def __init__(self) -> None:
        self.door = socket.socket(socket.AF_UNIX)
        self.by_stage: dict[int, Connection] = {}

    def open(self, path: str, most: int) -> None:
        """Listen at a path; `most` stages may knock at once."""
        self.door.bind(path)
        self.door.listen(most)

    def accept(self) -> Hello | None:
        """Let a stage in that knocks; None when it is gone already."""
        link = Connection(self.door.accept()[0].detach())
        try:
            hello = decode_report(link.recv_bytes())
        except (EOFError, OSError):
            link.close()
            return None
        assert isinstance(hello, Hello)
        self.by_stage[hello.stage] = link
        return hello

    def read(self, stage: int, link: Connection) -> list[Report]:
        """Read one report of a stage; none when its connection has ended."""
        try:
            return [decode_report(link.recv_bytes())]
        except (EOFError, OSError):
            self.drop(stage)
            return []

    def read_last(self, stage: int) -> list[Report]:
        """Read what a stage said before it ended, and drop its connection."""
        reports: list[Report] = []
        if (link := self.by_stage.get(stage)) is not None:
            while stage in self.by_stage and link.poll(0):
                reports += self.read(stage, link)
        self.drop(stage)
        return reports

    def send(self, command: Command, stages: Sequence[int]) -> None:
        """Send a command to those of the stages that are connected."""
        body = encode(command)
        for stage in stages:
            link = self.by_stage.get(stage)
            if link is not None:
                try:
                    link.send_bytes(body)
                except OSError:
                    self.drop(stage)

    def drop(self, stage: int) -> None:
        """Close the connection of a stage, if there is one."""
        link = self.by_stage.pop(stage, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        """Close the connections and the door."""
        for stage in list(self.by_stage):
            self.drop(stage)
        self.door.close()
