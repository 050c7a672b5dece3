"""The package as users get it: what is in it, and that it works where nothing else is installed.

Built once for all processes of tests. `pytest -s tests/test_package.py` prints how large it is.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

import pytest
from support.ui_serving import answering
from support.wheels import PROJECT, ROOT, build, collect, offline, run

from hypergraph.cli.registry import COMMANDS

pytestmark = pytest.mark.slow
SOURCE = ROOT / "src" / "hypergraph"
INSTALL = ROOT / "docs" / "how-to" / "install.md"
EXTRAS = PROJECT["optional-dependencies"]
LEFTOVERS = re.compile(r"(^|/)(__pycache__|\.[^/]+|dist|build|[^/]*\.(pyc|db|db-\w+|egg-info))(/|$)")
PROGRAM = """
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer


@node(output_name="doubled")
def double(x: int) -> int:
    return 2 * x


graph = Graph([double], name="doubling")
result = SyncRunner(checkpointer=SqliteCheckpointer("runs.db")).run(graph, x=21, workflow_id="first")
print(result["doubled"])
"""
TYPED = """
from hypergraph import Graph, SyncRunner

reveal_type(Graph([], name="empty").name)
SyncRunner().run("no graph")
"""
HELP = """
import json
from hypergraph.cli import main
from hypergraph.cli.registry import COMMANDS

print(json.dumps({name: main([*name.split("-"), "--help"]) for name in COMMANDS}))
"""


class Made(NamedTuple):
    """What is built and installed."""

    sdist: Path
    wheel: Path
    wheels: Path  # of all else that is needed
    environment: Path  # with the package, and what it cannot do without

    def command(self, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the command of the installed package."""
        command = [str(self.environment / "bin" / "hypergraph"), *words]
        return subprocess.run(command, cwd=folder, env=alone(), capture_output=True, text=True, check=False)

    def names(self) -> list[str]:
        """Return the files in the wheel."""
        return zipfile.ZipFile(self.wheel).namelist()

    def metadata(self) -> Message:
        """Return what the wheel says about itself."""
        name = next(name for name in self.names() if name.endswith("/METADATA"))
        return Parser().parsestr(zipfile.ZipFile(self.wheel).read(name).decode())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Build and install the package, or wait until another process has."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "package"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            make(folder)
            (folder / "complete").touch()
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Made(sdist, wheel, folder / "wheels", folder / "environment")


def make(folder: Path) -> None:
    build(ROOT, folder, "sdist", "wheel")
    (wheel,) = folder.glob("*.whl")
    install(folder / "environment", str(wheel), collect(folder / "wheels"))


def install(environment: Path, what: str, wheels: Path) -> None:
    """Install into an environment, made empty if it is not there; from the folder of wheels alone."""
    if not environment.exists():
        run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    python = str(environment / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", what]
    run(command, env=os.environ | offline(wheels))


def alone() -> dict[str, str]:
    """Return variables that lead to no other package than the installed one."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "HYPERGRAPH_DB"}}


# --- what is in it ----------------------------------------------------------------------------------


def test_the_wheel_holds_the_package_whole_and_nothing_else(made: Made) -> None:
    files = [path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ours = {path.relative_to(SOURCE.parent).as_posix() for path in files}
    assert {name for name in made.names() if ".dist-info/" not in name} == ours
    assert {"hypergraph/py.typed", "hypergraph/ui/static/index.html", "hypergraph/cli/SKILL.md"} <= ours


def test_the_sdist_holds_what_the_tests_need_and_no_leftovers(made: Made) -> None:
    with tarfile.open(made.sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers()]
    assert {name.partition("/")[0] for name in names} == {
        *("benchmarks", "docs", "examples", "src", "tests"),
        *(
            "AGENTS.md",
            "CHANGELOG.md",
            "CODE_OF_CONDUCT.md",
            "CONTRIBUTING.md",
            "LICENSE",
            "Makefile",
            "README.md",
            "SECURITY.md",
            "mkdocs.yml",
            "package-lock.json",
            "package.json",
            "pyproject.toml",
            "requirements-dev.lock",
            "PKG-INFO",
            ".gitignore",
        ),
    }
    assert [name for name in names if LEFTOVERS.search(name)] == [".gitignore"]


def test_the_sdist_builds_the_same_wheel_to_the_byte(made: Made, tmp_path: Path) -> None:
    with tarfile.open(made.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    build(source, tmp_path, "wheel")
    assert (tmp_path / made.wheel.name).read_bytes() == made.wheel.read_bytes()


def test_the_wheel_says_what_it_is(made: Made) -> None:
    said = made.metadata()
    assert (said["Name"], said["Summary"]) == ("hypergraph", PROJECT["description"])
    assert (said["License-Expression"], said["Requires-Python"]) == ("MIT", ">=3.11")
    assert said.get_all("Classifier") == PROJECT["classifiers"]
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(said.get_all("Provides-Extra") or []) == set(EXTRAS)
    assert said.get_all("Project-URL") is None
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in made.names())


def test_sizes_are_those_of_the_page(made: Made) -> None:
    unpacked = sum(file.file_size for file in zipfile.ZipFile(made.wheel).infolist())
    sizes = {"wheel": made.wheel.stat().st_size, "sdist": made.sdist.stat().st_size, "installed": unpacked}
    print(
        {name: f"{size / 1e6:.2f} MB" for name, size in sizes.items()},
        f"{len(made.names())} files",
    )
    said = dict(re.findall(r"\| (wheel|sdist|installed)\b.*\| ([\d.]+) MB \|", INSTALL.read_text()))
    assert {name: float(said[name]) for name in sizes} == pytest.approx(
        {name: size / 1e6 for name, size in sizes.items()}, rel=0.25
    )


# --- where nothing else is installed ----------------------------------------------------------------


def test_it_brings_one_package_along(made: Made) -> None:
    python = str(made.environment / "bin" / "python")
    listed = run([sys.executable, "-m", "pip", "--python", python, "list", "--format", "json"])
    assert {each["name"] for each in json.loads(listed)} == {"hypergraph", "msgspec"}


def test_a_run_is_stored_and_the_command_tells_of_it(made: Made, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    python = str(made.environment / "bin" / "python")
    assert run([python, "program.py"], cwd=tmp_path, env=alone()) == "42\n"
    listed = made.command("--db", "runs.db", "ls", "--json", folder=tmp_path)
    assert [each["id"] for each in json.loads(listed.stdout)["items"]] == ["first"]
    shown = made.command("--db", "runs.db", "show", "first", folder=tmp_path)
    assert "Workflow: first | completed | 1 step" in shown.stdout
    page = made.command("--db", "runs.db", "ui", folder=tmp_path)
    assert (page.returncode, page.stderr.count("pip install 'hypergraph[ui]'")) == (2, 1)


def test_no_command_needs_an_extra_to_say_what_it_does(made: Made) -> None:
    python = str(made.environment / "bin" / "python")
    helped = run([python, "-c", HELP], env=alone())
    assert json.loads(helped.splitlines()[-1]) == dict.fromkeys(COMMANDS, 0)


def test_the_page_is_served_with_all_its_files(made: Made, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    install(environment, str(made.wheel), made.wheels)
    install(environment, "hypergraph[ui]", made.wheels)  # an extra, added by name to what is installed
    python = str(environment / "bin" / "python")
    run([python, "-c", PROGRAM], cwd=tmp_path, env=alone())
    files = {name for name in made.names() if name.startswith("hypergraph/ui/static/")}
    command = [str(environment / "bin" / "hypergraph"), "--db", str(tmp_path / "runs.db"), "ui", "--no-open"]
    with answering(command, alone()) as served:
        assert served.request("/").status == 200
        answers = {name: served.request(name.removeprefix("hypergraph/ui")) for name in sorted(files)}
    assert [name for name, answer in answers.items() if answer.status != 200] == []


def test_types_of_the_installed_package_are_seen(made: Made, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    python = str(made.environment / "bin" / "python")
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--python-executable",
            python,
            "typed.py",
        ],
        cwd=tmp_path,
        env=alone(),
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    assert checked[0] == 'typed.py:4: note: Revealed type is "str | None"'
    assert 'expected "Graph"' in checked[1]
    assert checked[2:] == ["Found 1 error in 1 file (checked 1 source file)"]


# --- extras -----------------------------------------------------------------------------------------


def test_all_extras_resolve_together(made: Made) -> None:
    """Ask for all of them at once; the index is asked for those alone that are not installed here."""
    what = f"{made.wheel}[{','.join(EXTRAS)}]"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--retries", "1", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "connection broken" in done.stderr:
        pytest.skip("no index can be reached")
    assert done.returncode == 0, done.stderr


def test_every_extra_is_on_the_page_and_nothing_else() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", INSTALL.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(EXTRAS)


def test_the_extra_for_everything_names_every_extra_that_adds_a_feature() -> None:
    (everything,) = EXTRAS["all"]
    named = everything.removeprefix("hypergraph[").removesuffix("]").split(",")
    assert named == [name for name in EXTRAS if name not in {"all", "dev", "docs", "cluster"}]
