"""`python -m hypergraph` is the `hypergraph` command."""

import sys

from hypergraph.cli import main

sys.exit(main())
