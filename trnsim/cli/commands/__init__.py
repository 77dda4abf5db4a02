"""One module per command; each holds `command` and is imported when the command is invoked."""
