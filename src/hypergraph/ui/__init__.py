"""The web page and its server: `hypergraph ui`.

The server listens on this machine only, responds with the read models of `hypergraph.views`, and never blocks
a writer. Stored texts are not trusted: they are sent as JSON, and the page inserts them as text. Needs the
extra `hypergraph[ui]`.
"""
