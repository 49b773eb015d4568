"""One file per subcommand: parse, call a use case, return an exit code. A plugin is a module with a function
`command` whose docstring and annotations Typer turns into help, and optionally `EPILOG`, its examples."""
