"""Serves an algorithm to the command: ``python -m fedsim.serve FILE CLASS [PARAMETERS]``."""

from fedsim.own import main

if __name__ == "__main__":
    main()
