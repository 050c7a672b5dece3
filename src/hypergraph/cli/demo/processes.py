"""Other processes of the demo: one that is heard out, and one that is killed."""

import os
import subprocess
import sys


def printed_by(module: str, *arguments: str) -> str:
    """Return what a module prints that is run in a process of its own.

    Raises:
        CalledProcessError: it failed.
    """
    done = subprocess.run(  # noqa: S603 - this interpreter, and a module of this package
        _command(module, *arguments),
        env=_environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.rstrip()


def calls_until_killed(module: str, *arguments: str) -> list[str]:
    """Run a module in a process of its own, kill it at its first empty line, and return the lines before.

    Raises:
        RuntimeError: it ended by itself.
    """
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the same
        _command(module, *arguments),
        env=_environment(),
        stdin=subprocess.PIPE,  # stays open: the process ends when this one does, whatever happens here
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            for line in process.stdout or ():
                if not line.strip():
                    return lines
                lines.append(line.strip())
        finally:
            process.kill()
    raise RuntimeError(f"{module} ended by itself with exit code {process.returncode}")


def _command(module: str, *arguments: str) -> list[str]:
    # -P: whatever lies in the current folder is not imported by mistake.
    return [sys.executable, "-P", "-X", "utf8", "-m", module, *arguments]


def _environment() -> dict[str, str]:
    """Return variables with which a child finds the package where this process has found it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
