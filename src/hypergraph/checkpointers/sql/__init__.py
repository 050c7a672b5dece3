"""SQL backends: their tables, statements and the store over them."""
