"""Talking to a person and leaving with a code: what command line and page share.

`console` has lines of a result and beside it, `bars` how far a step has come, `exits` what becomes
of an error. Nothing here sees the private table.
"""
