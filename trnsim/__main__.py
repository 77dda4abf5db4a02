"""The command line as a module: ``python -m trnsim``."""

from trnsim.cli import main

if __name__ == "__main__":
    main()
