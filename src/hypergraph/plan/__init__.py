"""Everything about a run that can be settled before it: prepared steps, and what it may start with."""
