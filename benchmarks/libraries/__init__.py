"""The same cases, written for each library the way its documentation shows.

A module runs in the environment of its library, and imports nothing else but `benchmarks.measure`. It has

- `CASES`: a name of `benchmarks.cases`, perhaps with "/" and a variant, and a function that takes the size,
  builds what a program builds once, and returns the work of one call. The work returns the answer.
- `GROWING`: the same for what gets larger with each call; it returns the work and a way to ask for bytes.
- `LARGEST`, if need be: the size up to which a case goes, and why not further.
- `chain_result`, if a run returns more than the answer: the same as the case "chain", with all of it.
- `DASHES`: why a case is not there.
"""
