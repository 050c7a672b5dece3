"""`python batch.py DAY` writes the invoices of a day; run again, it does what is missing.

`--outage` is a night in which the tariff service is down for a zone, `--corrected` takes the corrected rows.
"""

import argparse

import invoices

from hypergraph import SqliteCheckpointer, SyncRunner

STORE = SqliteCheckpointer("batch.db", durability="async")  # quick; a killed process repeats its last moments


def rows(corrected: bool) -> dict[str, str]:
    """Return what the meters sent: a thousand rows. Four make no sense, of which three get corrected."""
    good = {f"M{n:04}": f"{'north' if n % 40 == 0 else 'south'};{n};{n + 100}" for n in range(1000)}
    bad = {"M0013": "south;n/a;113", "M0113": "south;?;213", "M0213": "south;900;313", "M0313": "south;413"}
    late = {"M1000": "south;0;50"} if corrected else {}
    return {**good, **({"M0313": bad["M0313"]} if corrected else bad), **late}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("day")
    parser.add_argument("--outage", action="store_true")
    parser.add_argument("--corrected", action="store_true")
    given = parser.parse_args()
    if given.outage:
        invoices.OUTAGES.add("north")

    meters = rows(given.corrected)
    results = SyncRunner(checkpointer=STORE).map(
        invoices.graph,
        {"meter": list(meters), "row": list(meters.values())},
        map_over=["meter", "row"],
        key="meter",  # by which an item is known, also when its row was corrected or the list has changed
        error_handling="continue",
        workflow_id=given.day,
    )
    ran = sum(any(step.status != "skipped" for step in item.steps) for item in results.log)
    print(f"{given.day}: {len(results)} items, {ran} had something to do, {len(results.failures)} failed")


if __name__ == "__main__":
    main()
