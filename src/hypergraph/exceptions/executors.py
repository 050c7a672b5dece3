"""What can go wrong between a run and the executor that calls its nodes.

HypergraphError
├── RemoteError         a node failed in a worker, and its exception did not survive the way back
├── WorkerLostError     a worker died with a node's call
└── NotPicklableError   a function, an argument or a result cannot be sent
"""

from __future__ import annotations

from hypergraph.exceptions.base import HypergraphError


class RemoteError(HypergraphError):
    """A node failed in a worker; this stands for an exception that cannot be carried over."""

    def __init__(
        self, message: str | None = None, *, type_name: str = "", text: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.type_name = type_name  # module-qualified class of the exception
        self.text = text  # its message
        self.traceback = traceback  # formatted, from the worker


class WorkerLostError(HypergraphError):
    """A worker died while it called a node; what the call did is not known.

    `is_final` says that the executor would not do any better if it was asked once more.
    """

    def __init__(self, message: str | None = None, *, node_name: str = "", is_final: bool = False) -> None:
        super().__init__(message)
        self.node_name = node_name  # whose call was lost
        self.is_final = is_final  # see above


class NotPicklableError(HypergraphError, TypeError):
    """Something cannot be sent to an executor or back; leave the node local, or pass what can be pickled."""

    def __init__(self, message: str | None = None, *, node_name: str = "", name: str = "") -> None:
        super().__init__(message)
        self.node_name = node_name  # whose call it was
        self.name = name  # of the input or output, if it was one
