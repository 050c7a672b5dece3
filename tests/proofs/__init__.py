"""The suites that prove what is promised of stored runs: each module has a `NAME` and a `prove(scale, seed)`."""
