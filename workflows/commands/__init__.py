"""One module per sub-command, each with `add_arguments(parser)` and `main(args) -> int`; they read arguments and print."""
