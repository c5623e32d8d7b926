"""Loads the plugin when the project is not installed, so that `pytest` works in a plain checkout."""

from importlib.metadata import entry_points

pytest_plugins = ["pytester"]
if not any(e.value == "omni_verify_pytest" for e in entry_points(group="pytest11")):
    pytest_plugins.append("omni_verify_pytest")
