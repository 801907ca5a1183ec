"""The chain on Argo Workflows: wiring only. Each step calls a command of shardlib; `python -m workflows --help`."""
