"""``omni-verify`` over the fake target and catalogue."""

import functools
import importlib
import sys

import omni_verify.cli.main as cli
from omni_verify.campaign import Zygote
from omni_verify.settings import load

zygote = functools.partial(
    Zygote,
    resolver="fake_target:resolve",
    case_entry="fake_target:run",
    catalogue="fake_catalogue",
    settings=load(),
)
for name in ("check", "matrix"):
    module = importlib.import_module(f"omni_verify.cli.{name}")

    def play(*args, _campaign=module.campaign, **options):
        options.pop("settings", None)
        return _campaign(
            *args, zygote=lambda *a, settings=None, **o: zygote(*a, **o), package="fake_catalogue", **options
        )

    module.campaign = play

sys.exit(cli.main())
