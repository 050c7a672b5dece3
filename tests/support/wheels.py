"""The package as users get it: built, and installed into environments that hold nothing else.

No index is asked. What an installation needs besides is packed again from what is installed here, so that
pip finds it in a folder: the dependencies of the package, those of `hypergraph[ui]` and of its builder.
"""

import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DECLARED["project"]


def build(source: Path, to: Path, *targets: str) -> None:
    """Build the "sdist" or the "wheel" of a source tree into a folder."""
    asked = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *asked, "-d", str(to)]
    run(command, cwd=source)


def run(command: list[str], **options: object) -> str:
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def offline(wheels: Path) -> dict[str, str]:
    """Return the settings with which pip takes everything from a folder."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}


def collect(folder: Path) -> Path:
    """Fill a folder with wheels of all that the package needs to be built and installed, itself left out."""
    folder.mkdir(exist_ok=True)
    ui = PROJECT["optional-dependencies"]["ui"]
    needed = [*DECLARED["build-system"]["requires"], *PROJECT["dependencies"], *ui]
    for name in _closure([Requirement(each) for each in needed]):
        _pack(distribution(name), folder)
    return folder


def _closure(asked: list[Requirement]) -> set[str]:
    """Return the names of the distributions that these need, and those need, and so on."""
    found: set[tuple[str, frozenset[str]]] = set()
    while asked:
        wanted = asked.pop()
        key = (wanted.name.lower().replace("_", "-"), frozenset(wanted.extras))
        if key not in found:
            found.add(key)
            needed = [Requirement(line) for line in distribution(wanted.name).requires or []]
            asked += [each for each in needed if _applies(each, wanted.extras)]
    return {name for name, _ in found}


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def _pack(installed: Distribution, folder: Path) -> None:
    """Make a wheel of an installed distribution: its files and its metadata, without scripts and caches."""
    tag = next(
        line.removeprefix("Tag: ")
        for line in (installed.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag: ")
    )
    name = installed.metadata["Name"].replace("-", "_").replace(".", "_")
    with zipfile.ZipFile(folder / f"{name}-{installed.version}-{tag}.whl", "w") as wheel:
        for file in installed.files or []:
            if (
                file.parts[0] != ".."
                and file.suffix != ".pyc"
                and file.name not in {"INSTALLER", "REQUESTED"}
            ):
                wheel.write(str(file.locate()), file.as_posix())
