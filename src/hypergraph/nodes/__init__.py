"""Nodes: functions, gates, interrupts, timers, signals, nested graphs, and the decorators that make them."""

from hypergraph.exceptions import RenameError
from hypergraph.nodes.base import HyperNode, RenameEntry
from hypergraph.nodes.context import NodeContext
from hypergraph.nodes.function import FunctionNode, node
from hypergraph.nodes.gate import END, GateNode, IfElseNode, RouteNode, ifelse, route
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.interrupt import InterruptNode, interrupt
from hypergraph.nodes.options import Replace, RetryPolicy
from hypergraph.nodes.receive import ReceiveNode, receive
from hypergraph.nodes.timer import TimerNode, pause_for, pause_until

__all__ = [
    "END",
    "FunctionNode",
    "GateNode",
    "GraphNode",
    "HyperNode",
    "IfElseNode",
    "InterruptNode",
    "NodeContext",
    "ReceiveNode",
    "RenameEntry",
    "RenameError",
    "Replace",
    "RetryPolicy",
    "RouteNode",
    "TimerNode",
    "ifelse",
    "interrupt",
    "node",
    "pause_for",
    "pause_until",
    "receive",
    "route",
]
