"""How large a search may be, and what its parameters may be called, in any dialect. Pure."""

from __future__ import annotations

import re

#: docs: the quotas of Vizier, which keeps the studies of both services, "Maximum number of trials in a
#: study: 1,000".
MAX_TRIALS = 1000
#: [unverified] A bound of this service's own, against generated lists: no source names one.
MAX_PARAMETERS = 64
#: discovery of both APIs: a DISCRETE's values "should not contain more than 1,000 values".
MAX_DISCRETE_VALUES = 1000
#: Whole numbers beyond it are not all doubles, which is what bounds are in a study.
MAX_INTEGER = 2**53
#: [unverified] What can follow ``--`` on a command line; the APIs' own pattern was not found.
PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
PARAMETER_NAME_RULE = (
    "must start with a letter or underscore, hold only letters, digits and '_', '.', '-', and be at most "
    "128 long, since trials get it as the argument --NAME"
)
