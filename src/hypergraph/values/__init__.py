"""Serializers, codecs and encryption: values to bytes and back, exactly or not at all.

Public names are loaded on first use; `hypergraph.checkpointers` has them too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.values.classes import register
    from hypergraph.values.codecs import Codec, CodecChain, ZlibCodec, ZstdCodec
    from hypergraph.values.encryption import AesGcmCodec
    from hypergraph.values.serializers import JsonSerializer, MsgpackSerializer, PickleSerializer, Serializer
    from hypergraph.values.undecodable import Undecodable

# The names of each module; those that are not in `__all__` are for the package alone.
_NAMES = {
    "serializers": "Serializer JsonSerializer MsgpackSerializer PickleSerializer",
    "classes": "register kind_of",
    "undecodable": "Undecodable",
    "codecs": "Codec ZlibCodec ZstdCodec CodecChain",
    "encryption": "AesGcmCodec",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    # values
    "Serializer",
    "JsonSerializer",
    "MsgpackSerializer",
    "PickleSerializer",
    "register",
    "Undecodable",
    # their bytes
    "Codec",
    "ZlibCodec",
    "ZstdCodec",
    "AesGcmCodec",
    "CodecChain",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
