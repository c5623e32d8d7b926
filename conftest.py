"""Loads the plugin when the project is not installed, and leaves long tests out unless they are asked for."""

import signal
from importlib.metadata import entry_points

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has it ignored, and every child would inherit that: the
    # tests of interruption would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["pytester"]
if not any(e.value == "omni_verify_pytest" for e in entry_points(group="pytest11")):
    pytest_plugins.append("omni_verify_pytest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect ``slow`` tests; ``-m slow`` or any expression that names the mark selects them."""
    if "slow" in (config.getoption("markexpr") or ""):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
