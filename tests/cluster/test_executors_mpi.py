"""Nodes called by MPI processes, started as users start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from mpi4py.futures import MPIPoolExecutor
from hypergraph import Graph, SyncRunner, node
from support import away

@node(output_name="y")
def of_this_script(x):
    return x + 1

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        runner = SyncRunner(executor=executor)
        result = runner.run(Graph([of_this_script, away.where]), x=1)
        print(result["y"], result["pid"] != os.getpid())
        results = runner.map(
            Graph([away.fail_as]),
            kind=["needs_two", "value_error"],
            map_over="kind",
            error_handling="continue",
        )
        print([type(run.error).__name__ for run in results])
"""


@pytest.mark.slow
def test_functions_are_called_by_mpi_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", script]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.stdout == "2 True\n['RemoteError', 'ValueError']\n", done.stderr
