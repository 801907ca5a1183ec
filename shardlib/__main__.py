"""`python -m shardlib`, and the zipapp."""

from shardlib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
