"""Laws of the execution model: a reference interpreter, random graphs, and the comparison with the engine."""
