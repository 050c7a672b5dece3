"""What the SQL backends share: tables, statements and the store over them."""
