"""Rules that hold for the whole tree."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
).stdout.split("\n")
FILES = [ROOT / name for name in LISTED if name and (ROOT / name).is_file()]
PYTHON = [p for p in FILES if p.suffix == ".py"]
PRODUCT = [
    p for p in PYTHON if p.relative_to(ROOT).parts[0] in ("omni_verify", "omni_verify_pytest.py", "scenarios")
]


def where(path):
    return str(path.relative_to(ROOT))


def test_the_tree_is_seen():
    assert len(PRODUCT) > 30, "not a git checkout, or the rules look at nothing"


def test_only_judge_concludes_held():
    """`Verdict.HELD` may be compared anywhere; it is a value in verdict.py and an expectation in the gate."""
    found = set()
    for path in PRODUCT:
        tree = ast.parse(path.read_text())
        compared = {id(n) for c in ast.walk(tree) if isinstance(c, ast.Compare) for n in ast.walk(c)}
        keys = {id(k) for d in ast.walk(tree) if isinstance(d, ast.Dict) for k in d.keys}
        cases = {id(n) for m in ast.walk(tree) if isinstance(m, ast.MatchValue) for n in ast.walk(m)}
        for node in ast.walk(tree):
            named = isinstance(node, ast.Attribute) and node.attr == "HELD"
            spelled = isinstance(node, ast.Call) and ast.unparse(node) == "Verdict('held')"
            if (named or spelled) and id(node) not in compared | keys | cases:
                found.add(where(path))
    assert found == {"omni_verify/verdict.py", "omni_verify/campaign/known_failures.py"}


def test_no_module_is_longer_than_600_lines():
    assert [where(p) for p in PYTHON if len(p.read_text().splitlines()) > 600] == []


def test_no_scenario_sleeps():
    """A sleep in a scenario would decide an order; waits are for conditions, and bounded."""
    assert [
        where(p) for p in PRODUCT if p.parts[-2] == "scenarios" and re.search(r"\bsleep\(", p.read_text())
    ] == []


def test_nobody_prints_below_the_reports():
    for path in PRODUCT:
        room = path.relative_to(ROOT).parts[1:2]
        if room not in (("cli",), ("report",)):
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            assert not [n for n in calls if getattr(n.func, "id", "") == "print"], where(path)


def test_nothing_names_a_machine():
    """Folders of one machine have no place in a product: absolute paths below a home or a mount."""
    pattern = re.compile(r"(?<![\w.}])/(?:root|home|work|opt|mnt|Users)/[\w.]")
    for path in FILES:
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".txt", ".sh", "") and path != Path(__file__):
            try:
                found = pattern.search(path.read_text())
            except UnicodeDecodeError:
                continue
            assert not found, f"{where(path)}: {found}"


def test_every_room_says_what_it_is_and_what_it_exports():
    for init in sorted((ROOT / "omni_verify").glob("*/__init__.py")):
        tree = ast.parse(init.read_text())
        assert ast.get_docstring(tree), where(init)
        imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module != "__future__"]
        exported = [
            n for n in tree.body if isinstance(n, (ast.Assign, ast.AnnAssign)) and "__all__" in ast.unparse(n)
        ]
        assert exported or not imports, f"{where(init)} imports names without __all__"


def test_layers():
    pytest.importorskip("importlinter")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_the_command_line_starts_light():
    """An audit rules out who has loaded what a connector needs: itself, or it would never prove an orphan."""
    heavy = ("torch", "posix_ipc", "numpy", "matplotlib", "fastapi", "hypothesis", "pytest", "ray")
    program = f"import sys, omni_verify.cli.main; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_version_is_one():
    import omni_verify

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == omni_verify.__version__
    assert f"## {omni_verify.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_constraints_pin_every_direct_dependency():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    pinned = {
        canonicalize_name(Requirement(line).name): Requirement(line)
        for line in lines
        if line and line[0] != "#"
    }
    assert all(str(r.specifier).startswith("==") for r in pinned.values())
    assert str(pinned["torch"].specifier) == "==2.13.0"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(r for e in ("pipeline", "vllm-omni", "serve", "soak", "fuzz", "test") for r in extras[e]),
    ]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if name != "omni-verify":
            assert name in pinned, f"{name} is not pinned"
            version = str(pinned[name].specifier).removeprefix("==")
            assert requirement.specifier.contains(version), f"{requirement} excludes the pinned {version}"
