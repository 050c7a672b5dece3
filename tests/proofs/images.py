"""What a disk may hold after the power went: everything that was synced, and any part of what was not.

Content is on disk once its file is synced, a name once its folder is. Of the rest each write may be there, or
not, or some of its sectors; and each new, changed or removed name as well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from proofs.shim import Call

_SECTOR = 512
_NO_DISK = ("-shm", "-lock")  # files whose content means nothing to the next process


class _Write(NamedTuple):
    offset: int
    data: bytes | None  # None cuts the file

    def onto(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


@dataclass
class _File:
    """A file or, without content, a folder; whatever its names are."""

    is_folder: bool = False
    synced: bytearray = field(default_factory=bytearray)
    pending: list[_Write] = field(default_factory=list)


class _Naming(NamedTuple):
    """A change of names: a file gets one, loses one, or both."""

    file: _File
    new: str | None
    old: str | None

    def onto(self, names: dict[str, _File]) -> None:
        if self.old is not None and self.new is None:
            names.pop(self.old, None)
        elif self.old is None or names.pop(self.old, None) is not None:
            names[self.new or ""] = self.file


class Disk:
    """A disk that has seen some calls; `image` says what may be left of them."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._now: dict[str, _File] = {root: _File(is_folder=True)}
        self._synced = dict(self._now)
        self._pending: list[_Naming] = []

    def take(self, call: Call) -> None:
        """Let a call happen."""
        if call.path.endswith(_NO_DISK):
            return
        if call.kind in ("create", "folder"):
            self._rename(_Naming(_File(call.kind == "folder"), call.path, None))
        elif call.kind == "rename":
            self._rename(_Naming(self._now[call.path], call.other, call.path))
        elif call.kind == "remove":
            self._rename(_Naming(self._now[call.path], None, call.path))
        elif call.kind == "write":
            self._now[call.path].pending.append(_Write(call.offset, call.data))
        elif call.kind == "truncate":
            self._now[call.path].pending.append(_Write(call.offset, None))
        elif call.kind == "sync":
            self._sync(call.path)

    def _rename(self, naming: _Naming) -> None:
        naming.onto(self._now)
        self._pending.append(naming)

    def _sync(self, path: str) -> None:
        file = self._now[path]
        for write in file.pending:
            write.onto(file.synced)
        file.pending.clear()
        if file.is_folder:
            for naming in self._pending:
                if _folder_of(naming) == path:
                    naming.onto(self._synced)
            self._pending = [naming for naming in self._pending if _folder_of(naming) != path]

    def image(self, folder: Path, chance: random.Random, kept: float | None) -> None:
        """Write into a folder what may be left; what was not synced is kept with that probability, or torn.

        Without a probability each file has one of its own.
        """
        names = dict(self._synced)
        for naming in self._pending:
            if chance.random() < (0.5 if kept is None else kept):
                naming.onto(names)
        for path in sorted(names):
            if path.rpartition("/")[0] not in names and path != self._root:
                continue  # its folder is lost
            target = folder / path[len(self._root) :].lstrip("/")
            if names[path].is_folder:
                target.mkdir(exist_ok=True, mode=0o700)
            else:
                target.write_bytes(_content(names[path], chance, chance.random() if kept is None else kept))


def _folder_of(naming: _Naming) -> str:
    return (naming.new or naming.old or "").rpartition("/")[0]


def _content(file: _File, chance: random.Random, kept: float) -> bytes:
    content = bytearray(file.synced)
    for write in file.pending:
        if write.data is None or len(write.data) <= _SECTOR or kept in (0.0, 1.0):
            if chance.random() < kept:
                write.onto(content)
            continue
        for start in _sectors(write, chance, kept):
            _Write(write.offset + start, write.data[start : start + _SECTOR]).onto(content)
    return bytes(content)


def _sectors(write: _Write, chance: random.Random, kept: float) -> list[int]:
    """Return where the sectors of a write begin that are kept: all, none or some."""
    all_of_them = list(range(0, len(write.data or b""), _SECTOR))
    fate = chance.random()
    if fate < kept:
        return all_of_them
    return [start for start in all_of_them if chance.random() < kept] if fate < (1 + kept) / 2 else []
