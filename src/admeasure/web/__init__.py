"""The local page: from a table to a release in a browser, on the steward's own machine.

Bound to 127.0.0.1, behind a random token, with no request to anywhere else. The server holds no
state of its own: tables, runs and the budget book are files in one folder, runs are processes of
their own, and whatever reads the private table does so outside of the server.
"""
