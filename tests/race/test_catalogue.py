"""`pytest -m race`: every scenario of the catalogue against the target of this session."""


def test_scenario(omni_case):
    omni_case.verify()
