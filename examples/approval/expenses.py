"""An expense is checked, a manager decides, and it is paid, refused, or sent back to be corrected.

The graph, and where its runs are kept. Whoever has these two can take part: see submit.py and decide.py.
"""

from dataclasses import dataclass
from enum import StrEnum

from hypergraph import Graph, SqliteCheckpointer, interrupt, node, route


@dataclass(frozen=True)
class Expense:
    employee: str
    euros: int
    purpose: str


class Verdict(StrEnum):
    APPROVE = "approve"
    REFUSE = "refuse"
    CHANGE = "change"


@dataclass(frozen=True)
class Decision:
    verdict: Verdict
    by: str
    note: str = ""


@node(output_name=("claim", "question"))
def check(expense: Expense, correction: Expense | None = None) -> tuple[Expense, str]:
    claim = correction or expense
    remark = ", which is over the limit of 300" if claim.euros > 300 else ""
    return claim, f"{claim.employee} asks for {claim.euros} euros{remark}: {claim.purpose}"


@interrupt(output_name="decision")
def ask_manager(question: str) -> Decision | None:
    return None  # nobody is here to ask: the run pauses, and its process may end


@route(targets=["pay", "refuse", "ask_employee"])
def obey(decision: Decision) -> str:
    after = {Verdict.APPROVE: "pay", Verdict.REFUSE: "refuse", Verdict.CHANGE: "ask_employee"}
    return after[decision.verdict]


@interrupt(output_name="correction")
def ask_employee(decision: Decision) -> Expense | None:
    return None  # the answer is a corrected expense, and goes back to check


@node(output_name="outcome")
def pay(claim: Expense, decision: Decision) -> str:
    return f"{claim.euros} euros paid to {claim.employee}, approved by {decision.by}"


@node(output_name="outcome")
def refuse(claim: Expense, decision: Decision) -> str:
    return f"nothing paid to {claim.employee}, refused by {decision.by}: {decision.note}"


graph = Graph([check, ask_manager, obey, ask_employee, pay, refuse], name="expense")
store = SqliteCheckpointer("expenses.db")
