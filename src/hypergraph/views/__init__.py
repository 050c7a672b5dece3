"""Read models: the answers that the command line, the web page, agents and notebooks share.

Every answer is a typed dict of JSON primitives with the name of its schema, in a module of its name; times
are ISO 8601 in UTC. Lists load no values; a value is bounded, and can be read page by page or in full. The
program that wrote the workflows is not imported. A query without an answer raises `Problem`.
"""
