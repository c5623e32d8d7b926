"""The generated programs are a plain module beside the tests."""

import importlib.util
import pathlib
import sys

_path = pathlib.Path(__file__).parent / "generated.py"
_spec = importlib.util.spec_from_file_location("engine_generated", _path)
_module = importlib.util.module_from_spec(_spec)
sys.modules["engine_generated"] = _module
_spec.loader.exec_module(_module)
