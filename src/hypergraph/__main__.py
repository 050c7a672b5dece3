"""`python -m hypergraph` is the `hypergraph` command."""

import os
import sys

# Python puts the current folder first: a file in it would take the place of a library that is imported late.
if not sys.flags.safe_path and os.path.abspath(sys.path[0]) == os.getcwd():
    del sys.path[0]

from hypergraph.cli import main

sys.exit(main())
