"""A small tree with the shape of vllm-omni, for loader tests without a network."""

import textwrap

import pytest

CONNECTORS = "distributed/omni_connectors"
FILES = {
    "__init__.py": "raise ImportError('the heavy package ran')",
    "config/__init__.py": "raise ImportError('the heavy config package ran')",
    "entrypoints/__init__.py": "raise ImportError('the heavy entrypoints package ran')",
    "distributed/__init__.py": "raise ImportError('the heavy distributed package ran')",
    f"{CONNECTORS}/__init__.py": "raise ImportError('the heavy connectors package ran')",
    f"{CONNECTORS}/connectors/__init__.py": "",
    f"{CONNECTORS}/transfer_adapter/__init__.py": "",
    f"{CONNECTORS}/utils/__init__.py": "",
    "entrypoints/stage_utils.py": """
        from vllm_omni.platforms import current_omni_platform
        def shm_write_bytes(payload, name=None): return {}
        def shm_read_bytes(meta): return b""
        """,
    "data_entry_keys.py": """
        class OmniPayloadStruct:
            def __init__(self, codes=None, meta=None): self.codes, self.meta = codes, meta
        class CodesStruct:
            def __init__(self, audio): self.audio = audio
        class MetaStruct:
            def __init__(self, **fields): self.fields = fields
        """,
    f"{CONNECTORS}/utils/serialization.py": """
        from vllm.outputs import CompletionOutput, RequestOutput
        class OmniSerializer:
            @staticmethod
            def serialize(obj): return b"bytes"
        """,
    f"{CONNECTORS}/factory.py": """
        class OmniConnectorFactory:
            names = []
            @classmethod
            def register_connector(cls, name, constructor):
                if name in cls.names: raise ValueError(f"{name} is already registered.")
                cls.names.append(name)
        """,
    f"{CONNECTORS}/connectors/shm_connector.py": """
        import fcntl, os
        from vllm.logger import init_logger
        from vllm_omni.entrypoints.stage_utils import shm_read_bytes, shm_write_bytes
        class SharedMemoryConnector:
            def __init__(self, config): self.stage_id = config["stage_id"]
            def reap_consumed(self): os.path.exists("x")
        """,
    f"{CONNECTORS}/transfer_adapter/base.py": "",
    f"{CONNECTORS}/transfer_adapter/chunk_transfer_adapter.py": """
        from vllm.v1.metrics.stats import PrefillStats
        from vllm.v1.request import Request, RequestStatus
        from vllm.v1.utils import ConstantList
        from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
        class OmniChunkTransferAdapter:
            def __init__(self, config): self.config = config
            def save_async(self, output, request, force_request_finished=False): pass
            def collect_timed_out_request_ids(self, timeout): return set()
        """,
}


@pytest.fixture
def small_tree(tmp_path):
    """Return a folder with a package ``vllm_omni`` whose ``__init__`` files must not run."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        path = root / "vllm_omni" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    (root / "vllm_omni" / "_version.py").write_text("__version__ = version = '7.8.9'\n")
    return root
