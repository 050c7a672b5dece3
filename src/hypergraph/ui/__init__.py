"""The web page and its server: `hypergraph ui`.

The server listens on this machine only, answers with the read models of `hypergraph.views` and nothing else,
and reads without ever holding up a writer. What it shows is hostile: stored texts leave as JSON, and the page
puts them into the document as text. Needs the extra `hypergraph[ui]`.
"""
