"""`python -m reprieve.faces.cli` is `reprieve`."""

from reprieve.faces.cli import main

main()
