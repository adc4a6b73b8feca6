"""Entry point of ``tgnn`` and ``python -m tgnn``."""

import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C during the imports ends it with exit code 130, too."""
    for descriptor in range(3):  # of a closed stream, as after `>&-`, which the next file would take
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    try:
        from tgnn.cli.app import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
