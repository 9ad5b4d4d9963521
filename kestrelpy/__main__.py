"""`python -m kestrelpy`: the same as the command `kestrelpy`."""

from kestrelpy.cli import main

if __name__ == "__main__":
    main()
