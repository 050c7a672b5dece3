"""Entry point of `python -m hypergraph.demo [--db FILE]`."""

import argparse
import os
import sys

from hypergraph.demo import DEFAULT_FILE, run_demo
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import Problem


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="hypergraph demo", description="Run the demo.")
    parser.add_argument("--db", metavar="FILE", default=DEFAULT_FILE, help="the file for its runs")
    try:
        return run_demo(parser.parse_args().db, sys.stdout)
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except (Problem, CheckpointError) as error:
        print(f"hypergraph: {error}", *filter(None, [getattr(error, "hint", "")]), sep="\n", file=sys.stderr)
        return 4 if isinstance(error, Problem) else 3


sys.exit(main())
