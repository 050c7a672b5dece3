"""Plugin of pytest that plants the defect which the environment names."""

from __future__ import annotations

import os

from support import processes

from proofs.mutations import plant

if processes.DEFECT in os.environ:
    plant(os.environ[processes.DEFECT])
