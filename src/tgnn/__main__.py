"""``tgnn``, and ``python -m tgnn``, which is the same."""

import sys


def main() -> None:
    """Runs a verb. Ctrl-C is heard from the first import on."""
    try:
        from tgnn.cli.app import main as run
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
