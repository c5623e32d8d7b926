"""The contract between a transfer adapter and any transport: what every connector offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from omni_verify.pipeline.serde import Buffer, OmniSerializer

__all__ = ["OmniConnectorBase"]


class OmniConnectorBase(ABC):
    """Moves one object per key from a sending to a receiving stage.

    There is no destructor: collecting a connector must not unlink chunks that nobody has read yet (W28), so
    :meth:`close` is always explicit, or the end of a ``with`` block.
    """

    supports_raw_data: ClassVar[bool] = False
    """Whether bytes and tensors bypass the serializer."""

    reclaims_by_key: ClassVar[bool] = True
    """Whether ``cleanup(key)`` removes an unread object, so that an abort reclaims through it (W17)."""

    stage_id: int
    config: dict[str, Any]

    @abstractmethod
    def put(
        self, from_stage: str, to_stage: str, put_key: str, data: Any
    ) -> tuple[bool, int, dict[str, Any] | None]:
        """Store one object under the key.

        Returns:
            ``(True, size in bytes, transport metadata)``, or ``(False, 0, None)`` when nothing was stored.
        """

    @abstractmethod
    def get(
        self, from_stage: str, to_stage: str, get_key: str, metadata: Any = None
    ) -> tuple[Any, int] | None:
        """Take the object under the key; None when it is not available now. Never waits (I24).

        Raises:
            PayloadDecodeError: the bytes were consumed but form no object; another poll cannot help.
        """

    @abstractmethod
    def cleanup(self, request_id: str) -> bool:
        """Remove the unread object under exactly this key (I21); return whether there was one.

        The parameter's name is historical: it is a key, never a request id or a prefix.
        """

    def cleanup_prefix(self, key_prefix: str) -> int:
        """Remove every tracked key that is the prefix followed by digits only; return the number removed."""
        return 0

    def get_with_deadline(
        self, from_stage: str, to_stage: str, get_key: str, metadata: Any = None, *, deadline: float
    ) -> tuple[Any, int] | None:
        """Take the object unless ``deadline`` (on ``time.monotonic``) has passed.

        Raises:
            NotImplementedError: the transport cannot bound its get.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get with a deadline")

    def abandon_get(self, get_key: str) -> None:  # noqa: B027  optional: most transports reserve nothing
        """Give up a get that found nothing; transports that reserve on lookup override it."""

    def reap_consumed(self) -> None:  # noqa: B027  optional: most transports track nothing
        """Forget keys that a receiver has consumed; bounded work, never raises (I23)."""

    @abstractmethod
    def health(self) -> dict[str, Any]:
        """Return ``status`` and counters."""

    @abstractmethod
    def close(self) -> None:
        """Remove every unread object of this connector and release its resources; idempotent (I22)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @staticmethod
    def serialize_obj(obj: Any) -> bytes:
        """Encode an object for the wire."""
        return OmniSerializer.serialize(obj)

    @staticmethod
    def deserialize_obj(data: Buffer) -> Any:
        """Decode bytes of the wire."""
        return OmniSerializer.deserialize(data)

    @staticmethod
    def _make_key(key: str, from_stage: str, to_stage: str, separator: str = "@") -> str:
        """Return a key that also names the edge, for transports whose store spans several edges."""
        return f"{key}{separator}{from_stage}_{to_stage}"
