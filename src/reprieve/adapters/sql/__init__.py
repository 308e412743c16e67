"""Jobs in a SQL database: SQLite or PostgreSQL.

address.py     where a database is, read from a URL; what is shown of it holds no password
tables.py      the schema, once for both; where payloads and other values are stored as given is listed there
schema.py      whether a database fits, and how it is upgraded; migrations/ holds the steps
reader.py      look-ups;  keeper.py  pruning and erasing: SQLAlchemy, the same for both
news.py        after which intents workers are told
sqlite/        the store on one file;  postgres/  the store on a server: the hot statements, in the driver's own SQL
"""
