"""Where nodes are called: executors, what crosses to their workers, and what comes back.

Loaded by runners that are given an executor. The engine meets it as the `places` of a kernel.
"""
