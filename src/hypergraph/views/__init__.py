"""Read models: the answers that the command line, the web page, agents and notebooks share.

Every answer is a typed dict of JSON primitives with the name of its schema; times are ISO 8601 in UTC.
Summaries load no values; values come one at a time and bounded, with a way to get all of them. Nothing here
imports the program that wrote the workflows. What cannot be answered raises `Problem`.
"""
