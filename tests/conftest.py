"""Settings every test shares.

Properties are tried on the same examples each time, so that a fresh clone is as green as the last one;
`HYPOTHESIS_PROFILE=explore make test` looks for new ones. No deadline: a busy machine is not a bug.
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
