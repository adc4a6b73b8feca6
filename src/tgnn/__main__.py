"""Entry point of ``tgnn`` and ``python -m tgnn``."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C during the imports ends it with exit code 130, too."""
    try:
        from tgnn.cli.app import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
