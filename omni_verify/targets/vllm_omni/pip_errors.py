"""Read pip's complaint about a release that it could not fetch."""

from __future__ import annotations

import bisect
import re

from packaging.version import InvalidVersion, Version

from omni_verify.errors import TargetUnusableError

__all__ = ["explain", "nearest_versions"]

_AVAILABLE = re.compile(r"\(from versions: (?P<list>[^)]*)\)")
_LAST_LINES = 4


def explain(name: str, version: Version, stderr: str) -> TargetUnusableError:
    """Build the error for a failed ``pip download name==version`` from pip's standard error text."""
    if "No module named pip" in stderr:
        return TargetUnusableError(
            f"cannot fetch {name}=={version}: this interpreter has no pip. Install it with python -m "
            f"ensurepip, or give an unpacked wheel: {name}@PATH."
        )
    match = _AVAILABLE.search(stderr)
    known = _parse(match["list"]) if match else []
    if known and version not in known:
        near = ", ".join(str(v) for v in nearest_versions(version, known))
        return TargetUnusableError(
            f"there is no {name}=={version} that pip can fetch. Nearest: {near} (newest: {known[-1]})."
        )
    told = " / ".join(line.strip() for line in stderr.strip().splitlines()[-_LAST_LINES:]) or "no message"
    return TargetUnusableError(
        f"pip could not fetch {name}=={version}: {told}. Check the network and pip's index settings, or give "
        f"an unpacked wheel: {name}@PATH."
    )


def nearest_versions(version: Version, known: list[Version]) -> list[Version]:
    """Return up to two existing versions on either side of `version`; `known` is sorted."""
    at = bisect.bisect(known, version)
    return known[max(0, at - 2) : at + 2]


def _parse(listing: str) -> list[Version]:
    versions = []
    for text in listing.split(","):
        try:
            versions.append(Version(text.strip()))
        except InvalidVersion:  # "none", or a name from before the version scheme
            continue
    return sorted(versions)
