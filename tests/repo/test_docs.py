"""The documents say what the code does: commands, options, settings, schema, README's output and commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from omni_verify.campaign.result import json_schema
from omni_verify.cli.main import app
from omni_verify.settings import Settings

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
UPDATE = bool(os.environ.get("OMNI_VERIFY_UPDATE_DOCS"))
"""OMNI_VERIFY_UPDATE_DOCS=1 pytest tests/repo writes the generated parts anew."""


def agree(path, text):
    """Compare a generated file with what is committed."""
    if UPDATE:
        path.write_text(text)
    assert path.read_text() == text, (
        f"{path.name} is out of date: OMNI_VERIFY_UPDATE_DOCS=1 pytest tests/repo"
    )


def commands():
    group = typer.main.get_command(app)
    return {name: command for name, command in group.commands.items() if not command.hidden}


def cli_reference():
    """docs/reference/cli.md, from the commands themselves."""
    lines = [
        "# Command line",
        "",
        "`omni-verify COMMAND --help` says the same. Exit codes: [exit-codes.md](exit-codes.md).",
        "",
    ]
    for name, command in sorted(commands().items()):
        lines += [f"## omni-verify {name}", "", *" ".join(command.help.split("\n\n")[0].split()).splitlines()]
        rest = [" ".join(part.split()) for part in command.help.split("\n\n")[1:]]
        lines += [line for part in rest for line in ("", part)]
        lines += ["", "| option | meaning |", "| --- | --- |"]
        for parameter in command.params:
            spelled = ", ".join(
                f"`{o}`" for o in (*parameter.opts, *parameter.secondary_opts) if o.startswith("-")
            )
            spelled = spelled or f"`{parameter.metavar or parameter.name.upper()}`"
            if parameter.metavar and parameter.param_type_name == "option":
                spelled += f" `{parameter.metavar}`".replace("|", "\\|")
            lines.append(f"| {spelled} | {getattr(parameter, 'help', None) or ''} |")
        lines.append("")
    return "\n".join(lines)


def test_every_command_and_option_is_documented():
    agree(REFERENCE / "cli.md", cli_reference())


def test_every_option_has_a_help_text():
    missing = [
        f"{name} {p.name}" for name, c in commands().items() for p in c.params if not getattr(p, "help", "")
    ]
    assert missing == []


def test_every_command_says_what_its_exit_codes_mean():
    rows = [
        line.split("|")[1] for line in (REFERENCE / "exit-codes.md").read_text().splitlines() if "|" in line
    ]
    told = re.findall(r"`([a-z]+)`", " ".join(rows))
    assert sorted(set(told) & set(commands())) == sorted(commands())


def test_the_schema_is_published():
    agree(REFERENCE / "run-schema.json", json.dumps(json_schema(), indent=2) + "\n")


def test_every_bound_is_documented_with_its_default():
    text = (REFERENCE / "settings.md").read_text()
    for name in Settings.__struct_fields__:
        assert f"| `OMNI_VERIFY_{name.upper()}` | {getattr(Settings(), name):g} |" in text


def test_architecture_is_one_page():
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= 80


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"


def readme_block(mark, language):
    found = re.search(
        rf"<!-- {re.escape(mark)} -->\n```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert found, f"README.md has no block after {mark!r}"
    return found


def test_readme_commands_are_the_ones_that_ci_runs():
    assert (
        "pytest" in readme_block("ci: test", "bash")[1]
        and ".ci/constraints.txt" in readme_block("ci: test", "bash")[1]
    )
    assert "omni-verify check --target" in readme_block("ci: main", "bash")[1]
    script = (ROOT / ".ci" / "run").read_text()
    assert "block test" in script and "README.md" in script, ".ci/run reads its command from README"
    assert "pip install" not in script, "what is installed is said in README alone"


def rewrite(block, text):
    """Replace a block of README, when asked to, and return what README then says."""
    if UPDATE:
        readme = (ROOT / "README.md").read_text()
        (ROOT / "README.md").write_text(readme[: block.start(1)] + text + readme[block.end(1) :])
        return text
    return block[1]


def test_readme_scenario_is_in_the_catalogue():
    source = (ROOT / "scenarios" / "abort.py").read_text()
    pattern = re.compile(r'^@scenario\(\s*"abort/put-in-flight".*?(?=\n\n\n)', re.DOTALL | re.MULTILINE)
    scenario = pattern.search(source)[0] + "\n"
    assert rewrite(readme_block("scenario: abort/put-in-flight", "python"), scenario) == scenario
    assert len(scenario.splitlines()) <= 16, "README promises ten lines or so"


def steady(text):
    """Without what differs between runs and machines."""
    for pattern, word in ((r" +\d+\.\d+ s", " 0.0 s"), (r"\d+ at a time", "N at a time")):
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.network
def test_readme_output_is_real(tmp_path):
    mark = "output: check --target vllm-omni==0.30.0 --select put/enospc"
    block = readme_block(mark, "text")
    run = subprocess.run(
        [sys.executable, "-m", "omni_verify", *mark.removeprefix("output: ").split(), "--no-store"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=280,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if run.returncode == 4:
        pytest.skip(f"the release cannot be had here: {run.stderr.strip().splitlines()[-1]}")
    assert run.returncode == 1, run.stderr
    assert steady(rewrite(block, run.stdout)) == steady(run.stdout)
