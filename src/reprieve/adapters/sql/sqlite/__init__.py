"""The store on one SQLite file: the driver is the standard library's, and all of it runs in one thread."""
