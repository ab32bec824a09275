"""The program xtrain, as `python -m xtrain` and as the command that the wheel installs."""

import os
import pathlib
import shutil
import sys


def main() -> None:
    own = pathlib.Path(__file__).parent / "bin" / "xtrain"
    program = str(own) if own.exists() else shutil.which("xtrain")
    if not program:
        sys.exit("xtrain: the program is neither in this package nor in the PATH")
    os.execv(program, ["xtrain", *sys.argv[1:]])


if __name__ == "__main__":
    main()
