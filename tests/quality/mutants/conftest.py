"""The marker by which a test names the invariants that it guards; `omni-verify mutants` reads it."""


def pytest_configure(config):
    config.addinivalue_line("markers", "invariant(*ids): the invariants that this test guards")
