"""Commands, one module each, loaded when the command is called."""
