"""The native loader runs the package's own ``__init__`` beside an installed vllm (here: a small one)."""

import os
import subprocess
import sys
import textwrap

import pytest

VLLM = {
    "__init__.py": "__version__ = '1.0'",
    "logger.py": "def init_logger(name): return None",
    "outputs.py": "class CompletionOutput: ...\nclass RequestOutput: ...",
    "v1/__init__.py": "",
    "v1/request.py": """
        import enum
        class Request: ...
        class RequestStatus(enum.IntEnum):
            WAITING = 1
            FINISHED_ABORTED = 2
            @staticmethod
            def is_finished(status): return status > RequestStatus.WAITING
        """,
    "v1/utils.py": "class ConstantList: ...",
    "v1/metrics/__init__.py": "",
    "v1/metrics/stats.py": "class PrefillStats: ...",
    "distributed/__init__.py": "",
    "distributed/parallel_state.py": "def get_tensor_model_parallel_rank(): return 0",
}
PROGRAM = """
    import sys
    sys.path[:] = {path!r}
    from omni_verify.errors import OmniVerifyError
    from omni_verify.targets import resolve
    try:
        t = resolve({spec!r}, loader={loader!r})
        t.load()
    except OmniVerifyError as error:
        sys.exit(f"{{type(error).__name__}}: {{error}}")
    print(t.info.loader, sys.modules["vllm"].__version__, t.create_request("a", "b").status.name)
    """


@pytest.fixture
def path(small_tree, tmp_path):
    """Return a module search path with a small vllm; the small tree's heavy packages import fine."""
    for package in small_tree.rglob("__init__.py"):
        package.write_text("")
    (small_tree / "vllm_omni" / "__init__.py").write_text("import vllm\n")
    (small_tree / "vllm_omni" / "platforms.py").write_text("current_omni_platform = object()\n")
    for name, text in VLLM.items():
        file = tmp_path / "site" / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return [str(tmp_path / "site"), *sys.path]


def run(path, spec, loader):
    program = textwrap.dedent(PROGRAM).format(path=path, spec=spec, loader=loader)
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
    )
    return (done.stdout + done.stderr).strip()


def test_native_uses_the_real_packages(path, small_tree):
    assert run(path, f"vllm-omni@{small_tree}", "native") == "native 1.0 WAITING"


def test_auto_is_native_for_the_installed_package_only(path, small_tree):
    assert run([str(small_tree), *path], "vllm-omni", "auto") == "native 1.0 WAITING"
    (small_tree / "vllm_omni" / "__init__.py").write_text("raise ImportError('heavy')")
    assert "native loader: ImportError: heavy" in run([str(small_tree), *path], "vllm-omni", "auto")


def test_not_installed_says_what_to_name_instead():
    told = run(sys.path, "vllm-omni", "auto")
    if told.startswith(("native", "isolated")):
        pytest.skip("vllm-omni is installed here")
    assert told.startswith("TargetUnusableError: vllm-omni is not installed")
    assert "vllm-omni@PATH" in told
