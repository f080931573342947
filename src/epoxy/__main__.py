"""`python -m epoxy` is the `epoxy` command."""

from epoxy.cli.main import main

if __name__ == "__main__":
    main()
