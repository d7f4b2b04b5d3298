"""`python -m bertcli` is `bert`."""

from bertcli.cli.main import main

if __name__ == "__main__":
    main()
