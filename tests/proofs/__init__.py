"""The suites that prove what is promised of stored runs: modules with a `NAME` and a `prove(scale, seed)`."""
