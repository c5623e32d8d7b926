"""References with a seeded bug each, by name; loaded by the zygotes of the tests beside this file."""

import ctypes

from omni_verify.targets.reference import ReferenceTarget


def resolve(spec, *, loader="auto"):
    return ReferenceTarget(spec, apply=BUGS.get(spec.partition("@")[2]))


def _lossy(target):
    """Loses chunk 3, rounds bfloat16 away, and litters when it is told of an abort."""
    import torch

    connector, adapter = target.connector_class, target.adapter_class
    put, get, finish = connector.put, connector.get, adapter.finish_requests

    def lossy_put(self, from_stage, to_stage, put_key, data):
        if put_key.endswith("-R_1_3") and not isinstance(data, dict):
            return True, 1, {}
        return put(self, from_stage, to_stage, put_key, data)

    def rounding_get(self, *args, **kwargs):
        found = get(self, *args, **kwargs)
        if found is not None and isinstance(found[0], dict) and "0-d" in found[0]:
            tensor = found[0]["0-d"]
            found[0]["0-d"] = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
        return found

    def littering_finish(self, request_ids, *args, **kwargs):
        with open(f"/dev/shm/{min(request_ids)}_9_9", "wb") as file:
            file.write(b"litter")
        return finish(self, request_ids, *args, **kwargs)

    connector.put, connector.get, adapter.finish_requests = lossy_put, rounding_get, littering_finish


def _crashing(target):
    """Its process dies by SIGSEGV in the get of chunk 2, whoever sent it."""
    connector = target.connector_class
    get = connector.get

    def crash(self, from_stage, to_stage, get_key, *args):
        if get_key.endswith("_1_2"):
            ctypes.string_at(0)
        return get(self, from_stage, to_stage, get_key, *args)

    connector.get = crash


BUGS = {"lossy": _lossy, "crashing": _crashing}
