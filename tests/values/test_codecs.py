"""Codecs: the same bytes or an error, bounded memory, tampering detected."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.checkpointers import AesGcmCodec, Codec, CodecChain, ZlibCodec, ZstdCodec
from hypergraph.exceptions import DecryptionError

MIB = 1024 * 1024
OLD, NEW = bytes(range(32)), bytes(range(32, 64))
ROW = b"wf/1/answer/1"


class Reverse:
    """The least a codec can be."""

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    decode = encode


CHAINS = [
    CodecChain(codecs)
    for codecs in (
        [],
        [ZlibCodec()],
        [ZlibCodec(level=1)],
        [ZstdCodec()],
        [ZstdCodec(level=22)],
        [AesGcmCodec(OLD)],
        [ZlibCodec(), AesGcmCodec(OLD)],
        [ZstdCodec(), AesGcmCodec(keys={"a": OLD, "b": NEW}, current="b")],
        [Reverse()],
        [Reverse(), ZlibCodec(), AesGcmCodec(OLD)],
    )
]
COMPRESSIONS = [ZlibCodec, ZstdCodec]
every_chain = pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.format or "none")
every_compression = pytest.mark.parametrize("kind", COMPRESSIONS)
data_of_any_kind = st.binary(max_size=2000) | st.builds(
    bytes.__mul__, st.binary(max_size=3), st.integers(0, 9999)
)


@every_chain
@given(data=data_of_any_kind, identity=st.binary(max_size=40))
def test_what_was_encoded_comes_back(chain: CodecChain, data: bytes, identity: bytes) -> None:
    assert chain.decode(chain.encode(data, identity), chain.format, identity) == data


@pytest.mark.parametrize("codec", [ZlibCodec(), ZstdCodec(), AesGcmCodec(OLD)])
@given(data=data_of_any_kind)
def test_a_codec_works_alone(codec: Codec, data: bytes) -> None:
    assert codec.decode(codec.encode(data)) == data
    assert isinstance(codec, Codec)


@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 3 * MIB])
@pytest.mark.parametrize("make", [os.urandom, bytes], ids=["noise", "zeros"])
@every_compression
def test_large_values_come_back(kind: Any, make: Callable[[int], bytes], size: int) -> None:
    data = make(size)
    assert kind().decode(kind().encode(data)) == data


# -- damage ----------------------------------------------------------------------------------------------


@given(data=st.binary(max_size=40))
def test_every_changed_byte_of_an_encrypted_value_is_noticed(data: bytes) -> None:
    codec = AesGcmCodec(OLD)
    sealed = codec.encode(data, identity=ROW)
    for place in range(len(sealed)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(sealed)
            changed[place] ^= change
            with pytest.raises(DecryptionError):
                codec.decode(bytes(changed), identity=ROW)


@pytest.mark.parametrize("data", [b"", b"a", b"abc" * 900, os.urandom(100)], ids=len)
@pytest.mark.parametrize("codec", [ZlibCodec(), ZstdCodec(), AesGcmCodec(OLD)], ids=lambda codec: codec.id)
def test_every_truncation_is_an_error(codec: Codec, data: bytes) -> None:
    encoded = codec.encode(data)
    for length in range(len(encoded)):
        with pytest.raises((ValueError, DecryptionError)):
            codec.decode(encoded[:length])


@pytest.mark.parametrize("data", [b"", b"a" * 1000, os.urandom(64 * 1024)], ids=len)
@every_compression
def test_what_follows_a_compressed_value_is_an_error(kind: Any, data: bytes) -> None:
    encoded = kind().encode(data)
    for more in (b"\0", b"x" * 100_000, encoded):
        with pytest.raises(ValueError, match=f"{kind.__name__} cannot decompress the stored bytes"):
            kind().decode(encoded + more)


@given(junk=st.binary(max_size=300))
def test_junk_is_a_clean_error(junk: bytes) -> None:
    for codec in (ZlibCodec(), ZstdCodec(), AesGcmCodec(OLD)):
        with pytest.raises((ValueError, DecryptionError)):
            codec.decode(junk)


# -- bounds ----------------------------------------------------------------------------------------------


def peak_of_refusal(codec: Codec, bomb: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"{type(codec).__name__}\(max_size="):
            codec.decode(bomb)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@every_compression
def test_a_bomb_is_refused_within_the_memory_of_its_limit(kind: Any) -> None:
    bomb = kind(9).encode(bytes(64 * MIB))
    assert len(bomb) < 100_000
    assert peak_of_refusal(kind(max_size=MIB), bomb) < 2 * MIB


def test_a_zstd_bomb_that_hides_its_size_is_refused() -> None:
    compressor = zstandard.ZstdCompressor().compressobj()  # one that does not know the size in advance
    bomb = compressor.compress(bytes(64 * MIB)) + compressor.flush()
    with pytest.raises(ValueError, match="the size is missing"):
        ZstdCodec(max_size=MIB).decode(bomb)


def test_a_zstd_value_that_claims_more_than_it_can_hold_allocates_nothing() -> None:
    compressor = zstandard.ZstdCompressor().compressobj(size=900 * MIB)
    lie = compressor.compress(b"x") + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    assert zstandard.frame_content_size(lie) == 900 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="incomplete"):
            ZstdCodec().decode(lie)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [ZlibCodec, ZstdCodec, lambda **options: AesGcmCodec(OLD, **options)])
def test_the_limit_is_exact_and_holds_for_writing_too(kind: Any) -> None:
    exact, tight = kind(max_size=1000), kind(max_size=999)
    encoded = exact.encode(bytes(1000))
    assert exact.decode(encoded) == bytes(1000)
    for refused in (lambda: tight.encode(bytes(1000)), lambda: tight.decode(encoded)):
        with pytest.raises(ValueError, match=r"larger than the 999 bytes .*\(max_size="):
            refused()


def test_a_chain_bounds_codecs_that_do_not_bound_themselves() -> None:
    class Bomb:
        max_size = 1000

        def encode(self, data: bytes) -> bytes:
            return data

        def decode(self, data: bytes) -> bytes:
            return data * 1001

    chain = CodecChain([Bomb()])
    for refused in (
        lambda: chain.encode(bytes(1001)),
        lambda: chain.decode(b"x", chain.format),
        lambda: chain.decode(bytes(3000), chain.format),
    ):
        with pytest.raises(ValueError, match=r"Bomb\(max_size="):
            refused()


@pytest.mark.parametrize(
    ("level", "error"), [(0, ValueError), (23, ValueError), ("3", TypeError), (True, TypeError)]
)
@every_compression
def test_levels_and_limits_are_checked(kind: Any, level: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="level must be"):
        kind(level=level)
    if level != 23:
        with pytest.raises(error, match="max_size must be"):
            kind(max_size=level)


# -- encryption ------------------------------------------------------------------------------------------


@given(here=st.binary(max_size=20), there=st.binary(max_size=20))
def test_a_value_moved_to_another_row_does_not_decrypt(here: bytes, there: bytes) -> None:
    chain = CodecChain([AesGcmCodec(OLD)])
    sealed = chain.encode(b"salary", here)
    if here != there:
        with pytest.raises(DecryptionError, match="moved from another row"):
            chain.decode(sealed, chain.format, there)


def test_a_changed_format_does_not_decrypt() -> None:
    chain = CodecChain([ZstdCodec(), AesGcmCodec(OLD)])
    with pytest.raises(DecryptionError, match="changed"):
        chain.decode(chain.encode(b"x" * 100, ROW), "aesgcm/1", ROW)


def test_the_same_value_is_encrypted_differently_each_time() -> None:
    codec = AesGcmCodec(OLD)
    assert len({codec.encode(b"same") for _ in range(100)}) == 100


def test_after_rotation_old_values_are_read_and_new_ones_use_the_current_key() -> None:
    before = AesGcmCodec(OLD)
    after = AesGcmCodec(keys={"default": OLD, "2025": NEW}, current="2025")
    assert after.decode(before.encode(b"old")) == b"old"
    fresh = after.encode(b"new")
    assert AesGcmCodec(keys={"2025": NEW}).decode(fresh) == b"new"
    with pytest.raises(
        DecryptionError, match="encrypted with the key '2025', but this store has 'default'; add the key"
    ):
        before.decode(fresh)


def test_the_first_key_is_the_current_one() -> None:
    codec = AesGcmCodec(keys={"b": NEW, "a": OLD})
    assert (codec.current, codec.key_ids) == ("b", ("b", "a"))


def test_the_wrong_key_is_named_and_not_shown() -> None:
    sealed = AesGcmCodec(keys={"2025": OLD}).encode(b"x")
    with pytest.raises(DecryptionError, match="cannot be decrypted with the key '2025'") as caught:
        AesGcmCodec(keys={"2025": NEW}).decode(sealed)
    assert caught.value.__cause__ is not None
    for key in (OLD, NEW):
        assert key.hex() not in str(caught.value)
        assert repr(key) not in str(caught.value)


def test_nothing_shows_a_key() -> None:
    codec = AesGcmCodec(keys={"a": OLD, "b": NEW}, current="b", allow_plaintext=True)
    assert repr(codec) == "AesGcmCodec(keys={'a': ***, 'b': ***}, current='b', allow_plaintext=True)"
    shown = f"{codec!r} {codec} {vars(codec)} {CodecChain([codec])!r}"
    assert not any(text in shown for key in (OLD, NEW) for text in (key.hex(), repr(key), repr(list(key))))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"key": "secret" * 6}, TypeError, r"os\.urandom\(32\)"),
        ({"key": 32}, TypeError, "must be 32 random bytes, got int"),
        ({"key": {"a": OLD}}, TypeError, r"pass several as keys=\{id: key\}"),
        ({"key": OLD[:16]}, ValueError, r"must have 32 bytes, got 16; make one with os\.urandom\(32\)"),
        ({"key": b""}, ValueError, "must have 32 bytes, got 0"),
        ({"key": OLD + b"\n"}, ValueError, "must have 32 bytes, got 33"),
        ({"keys": {"a": OLD, "b": "text"}}, TypeError, "The key 'b' must be 32 random bytes, got str"),
        ({"keys": {}}, ValueError, "keys is empty"),
        ({"keys": [OLD]}, TypeError, "keys must map ids to keys"),
        ({"keys": {1: OLD}}, TypeError, "must be a string, got int"),
        ({"keys": {"": OLD}}, ValueError, "1 to 64 bytes of printable text"),
        ({"keys": {"é" * 33: OLD}}, ValueError, "1 to 64 bytes of printable text"),
        ({"keys": {"a\n": OLD}}, ValueError, "1 to 64 bytes of printable text"),
        ({"keys": {"a": OLD}, "current": "b"}, ValueError, "current='b' is not among the keys: 'a'"),
        ({"key": OLD, "keys": {"a": OLD}}, TypeError, "either a key or keys="),
        ({}, TypeError, "either a key or keys="),
        ({"key": OLD, "max_size": 2**31}, ValueError, "max_size must be 1 to"),
    ],
)
def test_keys_that_are_none_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        AesGcmCodec(**options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_key_may_be_any_kind_of_bytes(kind: Any) -> None:
    assert AesGcmCodec(OLD).decode(AesGcmCodec(kind(OLD)).encode(b"x")) == b"x"


# -- chains ----------------------------------------------------------------------------------------------


def test_codecs_are_applied_in_order_and_named_in_order() -> None:
    chain = CodecChain([Reverse(), ZlibCodec()])
    assert chain.format == f"{__name__}:Reverse/1+zlib/1"
    assert zlib.decompress(chain.encode(b"abc")) == b"cba"
    assert CodecChain().format == ""
    assert CodecChain([ZstdCodec(), AesGcmCodec(OLD)]).format == "zstd/1+aesgcm/1"


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        (
            [AesGcmCodec(OLD), ZstdCodec()],
            "compress encrypted data, which has no effect; compress first",
        ),
        ([AesGcmCodec(OLD), Reverse(), ZlibCodec()], "compress encrypted data"),
        ([ZlibCodec(), ZstdCodec()], "compress twice"),
        ([ZlibCodec(), ZlibCodec()], "contain 'zlib' twice"),
    ],
)
def test_chains_that_make_no_sense_are_refused(codecs: list[Codec], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CodecChain(codecs)


@pytest.mark.parametrize("thing", [None, "zlib", ZlibCodec, zlib, object()])
def test_what_is_no_codec_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="A codec needs methods"):
        CodecChain([thing])


@pytest.mark.parametrize("name", ["", "a+b", "a/b", "a b", "a\0", 1])
def test_ids_that_would_confuse_a_format_are_refused(name: Any) -> None:
    codec = Reverse()
    codec.id = name
    with pytest.raises(ValueError, match="The id of a codec must be text without blanks"):
        CodecChain([codec])


def test_a_codec_that_returns_no_bytes_is_named() -> None:
    class Hex(Reverse):
        def encode(self, data: bytes) -> Any:
            return data.hex()

    with pytest.raises(TypeError, match="Hex returned str instead of bytes"):
        CodecChain([Hex()]).encode(b"x")


def test_a_codec_with_the_keyword_is_told_the_identity() -> None:
    class Sealed(Reverse):
        def encode(self, data: bytes, *, identity: bytes) -> bytes:
            return identity + data

    assert ROW in CodecChain([Sealed()]).encode(b"x", ROW)


@pytest.mark.parametrize("option", [None, [], (), ZlibCodec(), [ZlibCodec()], CodecChain([ZlibCodec()])])
def test_an_option_may_be_one_codec_several_a_chain_or_nothing(option: Any) -> None:
    assert CodecChain.of(option).format == ("zlib/1" if option else "")


def test_compression_can_be_switched_on_later() -> None:
    chain = CodecChain([ZstdCodec()])
    assert chain.decode(b"plain", "") == b"plain"


def test_compression_can_be_changed_or_switched_off_later() -> None:
    old = CodecChain([ZlibCodec()])
    for codecs in ([], [ZstdCodec()]):
        new = CodecChain(codecs, also_reads=[ZlibCodec()])
        assert new.decode(old.encode(b"x"), old.format) == b"x"
        assert new.format == CodecChain(codecs).format


def test_encryption_can_be_added_to_compression_while_plaintext_is_allowed() -> None:
    packed = CodecChain([ZstdCodec()])
    stored = packed.encode(b"x")
    migrating = CodecChain([ZstdCodec(), AesGcmCodec(OLD, allow_plaintext=True)])
    assert migrating.decode(stored, packed.format) == b"x"
    assert migrating.decode(b"x", "") == b"x"
    strict = CodecChain([ZstdCodec(), AesGcmCodec(OLD)])
    for format, data in ((packed.format, stored), ("", b"x")):
        with pytest.raises(
            DecryptionError, match=r"plaintext row in an encrypted store.*allow_plaintext=True"
        ):
            strict.decode(data, format)


def test_compression_can_be_added_to_encryption() -> None:
    sealed = CodecChain([AesGcmCodec(OLD)])
    both = CodecChain([ZlibCodec(), AesGcmCodec(OLD)])
    assert both.decode(sealed.encode(b"x", ROW), sealed.format, ROW) == b"x"


def test_a_store_without_a_key_says_which_option_is_needed() -> None:
    sealed = CodecChain([ZlibCodec(), AesGcmCodec(OLD)])
    with pytest.raises(DecryptionError, match=r"encrypted \('zlib/1\+aesgcm/1'\).*codec=AesGcmCodec\(key\)"):
        CodecChain([ZlibCodec()]).decode(sealed.encode(b"x"), sealed.format)


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("zstd/1", r"has no codec 'zstd'; add ZstdCodec\(\) to codec="),
        ("mine:Rot13/1", "the codec with the id 'mine:Rot13'"),
        ("zlib/2", "this release reads up to 'zlib/1'; upgrade"),
        ("zlib/", "invalid format"),
        ("zlib/x", "invalid format"),
        ("zlib/²", "invalid format"),
        ("zlib", "has no codec 'zlib'"),
        ("zlib/1+", "has no codec ''"),
        ("zlib/1+zlib/1", "contain 'zlib' twice"),
        ("json/1+zlib/1", "has no codec 'json'"),
    ],
)
def test_formats_of_others_are_refused(format: str, message: str) -> None:
    chain = CodecChain([ZlibCodec()])
    with pytest.raises(ValueError, match=message):
        chain.decode(chain.encode(b"x"), format)


# -- threads and imports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [ZlibCodec(), ZstdCodec(), AesGcmCodec(OLD)], ids=lambda codec: codec.id)
def test_one_codec_serves_many_threads(codec: Codec) -> None:
    def use(seed: int) -> bool:
        values = [bytes([seed, turn]) * (1 + 700 * turn) for turn in range(50)]
        return all(codec.decode(codec.encode(value)) == value for value in values)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(16)))


@pytest.mark.parametrize(
    ("kind", "package", "extra"),
    [(ZstdCodec, "zstandard", "zstd"), (lambda: AesGcmCodec(OLD), "cryptography", "crypto")],
)
def test_a_missing_package_is_an_import_error_that_names_the_extra(
    kind: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}; .*hypergraph\[{extra}\]"):
        kind()


def test_codecs_load_their_packages_when_they_are_made() -> None:
    code = (
        "import sys; import hypergraph.checkpointers as c; heavy = {'zstandard', 'cryptography', 'msgspec'};"
        "assert not heavy & set(sys.modules); c.ZstdCodec, c.AesGcmCodec, c.CodecChain([c.ZlibCodec()]);"
        "assert not heavy & set(sys.modules); c.ZstdCodec(); c.AesGcmCodec(bytes(32));"
        "assert 'zstandard' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
