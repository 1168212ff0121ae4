"""One module a command: HELP, arguments(parser), run(args) -> exit code. Their tops import nothing heavy."""
