"""Node calls by executors: dispatch in the process of the run, and the code that runs in the workers.

Loaded by runners that are given an executor.
"""
