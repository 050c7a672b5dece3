"""One state object, handed from node to node along declared edges, until a gate decides END.

The nodes all take a `Job` and return a `Job`. `chain` declares who follows whom; what a failing node got,
and how far the job had come, is in the evidence.
"""

from dataclasses import dataclass, replace

from hypergraph import END, Graph, NodeError, SyncRunner, chain, node, route


@dataclass(frozen=True)
class Job:
    url: str
    tries: int = 0
    page: str = ""
    title: str = ""


@node(output_name="job")
def fetch(job: Job) -> Job:
    page = "<title>Tea</title>" if job.tries else ""  # the first try brings nothing
    return replace(job, tries=job.tries + 1, page=page)


@node(output_name="job")
def parse(job: Job) -> Job:
    if "://" not in job.url:
        raise ValueError(f"not a URL: {job.url}")
    return replace(job, title=job.page.removeprefix("<title>").removesuffix("</title>"))


@route(targets=["fetch", END])
def again(job: Job) -> str | type[END]:
    return END if job.title else "fetch"


machine = Graph([fetch, parse, again], edges=chain(fetch, parse, again), name="crawler")


def main() -> None:
    runner = SyncRunner()

    print("--- a job that needs a second round")
    result = runner.run(machine, job=Job("https://example.org"))
    print(result["job"])
    print(result.log)

    print("--- a job that fails: the state at the point of failure")
    try:
        runner.run(machine, job=Job("example.org"))
    except ValueError as error:
        evidence = NodeError.of(error)
        assert evidence is not None
        print(evidence)
        print(evidence.values["job"])


if __name__ == "__main__":
    main()
