"""The smallest target that the runner of a case accepts: a connector in memory, no adapter, no modules."""

from omni_verify.targets.protocol import Capabilities, TargetInfo


class TinyConnector:
    """Objects by key; a verb raises or calls back when the test says so."""

    def __init__(self, config):
        self.config, self.objects, self.closed = config, {}, False

    def put(self, from_stage, to_stage, put_key, data):
        self.objects[put_key] = data
        return True, 1, None

    def get(self, from_stage, to_stage, get_key, metadata=None):
        if get_key == "broken":
            raise KeyError(get_key)
        return (self.objects.pop(get_key), 1) if get_key in self.objects else None

    def close(self):
        self.closed = True
        self.objects.clear()


class TinyTarget:
    """A `targets.Target` as far as scenarios without a stage need one."""

    spec = "tiny"

    def __init__(self, **capabilities):
        self.capabilities = Capabilities(adapter=False, posix_shm=False, **capabilities)
        self.info = TargetInfo(name="tiny", version="1")
        self.connectors = []

    def modules(self):
        return {}

    def create_connector(self, stage_id, extra=None):
        self.connectors.append(TinyConnector({"stage_id": stage_id, **(extra or {})}))
        return self.connectors[-1]
