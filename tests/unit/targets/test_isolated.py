"""The isolated loader: heavy packages do not run, missing pieces are named. One process a load."""

import subprocess
import sys
import textwrap

import pytest

CONNECTORS = "vllm_omni/distributed/omni_connectors"


def run(root, program="", loader="isolated"):
    """Load the tree in a process of its own, run `program` on the target `t`, return its last output line."""
    text = textwrap.dedent(
        f"""
        import sys
        sys.path[:] = {sys.path!r}
        from omni_verify.errors import OmniVerifyError
        from omni_verify.targets import resolve
        try:
            t = resolve({f"vllm-omni@{root}"!r}, loader={loader!r})
            t.load()
            t.load()
        except OmniVerifyError as error:
            sys.exit(f"{{type(error).__name__}}: {{error}}")
        """
    ) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=240, check=False
    )
    return (done.stdout + done.stderr).strip()


def test_it_loads_and_finds_capabilities_by_looking(small_tree):
    told = run(
        small_tree,
        """
        info, found = t.info, t.capabilities
        assert (info.name, info.version, info.loader) == ("vllm-omni", "7.8.9", "isolated"), info
        assert found.reap and found.forced_terminal and found.deadline and found.forkable, found
        assert not (found.cleanup_prefix or found.release or found.wakeups or found.send_failures), found
        assert t.create_connector(3).stage_id == 3
        config = t.create_adapter(2, worker_type="ar", receives=False, extra={"a": 1}).config
        assert config.model_config.stage_connector_config["extra"] == {"a": 1, "stage_id": 2}
        assert config.model_config.async_chunk is False
        r = t.create_request("i", "e")
        assert (r.request_id, r.external_req_id, r.is_finished()) == ("i", "e", False)
        r.status = t.status("FINISHED_ABORTED")
        assert r.is_finished()
        p = t.payload([1], 0, finished=True)
        assert (p.codes.audio, p.meta.fields) == ([1], {"finished": True, "left_context_size": 0})
        assert t.payload().meta is None
        import torch
        assert torch.get_num_threads() == 1
        assert "vllm" in sys.modules and not hasattr(sys.modules["vllm"], "__version__")
        from omni_verify.targets.vllm_omni import native, tree
        tree.installed_root()
        again = lambda: t.register_connector("x", print)
        again()
        for misuse in (lambda: t.status("WAITNG"), again, resolve(t.spec).load):
            try:
                misuse()
            except OmniVerifyError as error:
                print(type(error).__name__, error)
        """,
    ).splitlines()
    assert told[0].startswith("UsageError unknown request status 'WAITNG'. Did you mean 'WAITING'")
    assert told[1].startswith("UsageError cannot register the connector 'x'")
    assert "already imported vllm_omni" in told[2]  # module names collide: one process, one vllm-omni
    assert len(told) == 3


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("transfer_adapter/base.py", "from vllm.brand.new import Thing", "no stand-in for that name"),
        ("transfer_adapter/base.py", "from vllm.v1.request import NewThing", "NewThing"),
        ("transfer_adapter/base.py", "import no_such_light_package", "pip install no_such_light_package"),
        ("transfer_adapter/base.py", "1 / 0", "ZeroDivisionError"),
        ("factory.py", "", "has no OmniConnectorFactory"),
    ],
)
def test_what_a_future_tree_lacks_or_newly_needs_is_named(small_tree, name, line, told):
    (small_tree / CONNECTORS / name).write_text(line)
    text = run(small_tree)
    assert text.startswith("TargetUnusableError: ")
    assert told in text
    assert "Traceback" not in text


def test_native_without_vllm_says_how_to_get_it(small_tree):
    from omni_verify.targets.vllm_omni import native

    if native.is_available():
        pytest.skip("vllm is installed here")
    told = run(small_tree, loader="native")
    assert told.startswith("TargetUnusableError: ")
    assert "--loader isolated" in told


def test_missing_light_packages_give_the_exact_command(monkeypatch, small_tree):
    from omni_verify.errors import TargetUnusableError
    from omni_verify.targets.vllm_omni import isolated

    gone = ("omegaconf", "PIL")
    monkeypatch.setattr(isolated.importlib.util, "find_spec", lambda n: None if n in gone else object())
    with pytest.raises(
        TargetUnusableError, match=r"pillow, omegaconf.*pip install 'omni-verify\[vllm-omni\]'"
    ):
        isolated.load(small_tree, "vllm-omni@x")
