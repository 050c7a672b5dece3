"""How values become bytes and come back: exactly as they were, or not at all and with a reason."""
