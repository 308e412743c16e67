"""`python -m reprieve` is `reprieve`."""

from reprieve.faces.cli import main

main()
