"""A terminal with a shell in it, and somebody who types: `with Terminal(folder, environment) as terminal`.

The shell is an interactive bash on a pseudo terminal of 100 columns, without the settings of whoever runs
the tests. `type` returns what a command printed before the next prompt; both streams are in it, in the order
in which a person would see them.
"""

import os
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from subprocess import Popen
from types import TracebackType

COLUMNS = 100
PATIENCE = 100  # seconds for one command; far above the slowest
_PROMPT = "[the terminal waits] "
_SHELL = """
import fcntl
import os
import termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # whose Ctrl-C is heard
os.execvp("bash", ["bash", "--noprofile", "--norc", "--noediting", "-i"])
"""


class Terminal:
    """Type commands into a shell that stays the same: its folder and its variables last."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        quiet = {"TERM": "dumb", "HISTFILE": "/dev/null", "LANG": "C.UTF-8"}
        settings = {**quiet, "VIRTUAL_ENV_DISABLE_PROMPT": "1", **environment, "PS1": _PROMPT, "PS2": ""}
        self._line, theirs = os.openpty()
        _make_quiet(theirs)
        ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        command = [sys.executable, "-c", _SHELL]
        self._shell = Popen(command, cwd=folder, env=settings, start_new_session=True, **ends)
        os.close(theirs)
        self.until(_PROMPT)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._line)  # hangs up: the shell and what it started end
        self._shell.wait()

    def type(self, command: str, upto: str = _PROMPT) -> str:
        """Type a command and return what it prints; `upto` is for one that goes on: what it prints last."""
        os.write(self._line, command.encode() + b"\n")
        return self.until(upto)

    def interrupt(self) -> str:
        """Press Ctrl-C; return what is printed until the prompt is back."""
        os.write(self._line, b"\x03")
        return self.until(_PROMPT)

    def until(self, end: str) -> str:
        """Return what is printed before the prompt, or up to and including another text."""
        heard, patience = b"", time.monotonic() + PATIENCE
        while not heard.endswith(end.encode()):
            ready, _, _ = select.select([self._line], [], [], max(0, patience - time.monotonic()))
            assert ready, f"{end!r} is not printed; so far: {heard.decode(errors='replace')}"
            heard += os.read(self._line, 65536)
        text = heard.decode().replace("\r\n", "\n")
        return text.removesuffix(_PROMPT)


def _make_quiet(line: int) -> None:
    """Let a terminal not repeat what is typed, and say how wide it is."""
    settings = termios.tcgetattr(line)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(line, termios.TCSANOW, settings)
    ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
