"""``python -m tgnn``: the same as ``tgnn``."""

from tgnn.cli.app import main

if __name__ == "__main__":
    main()
