"""The web page in a real browser, on databases that real runs wrote in processes of their own."""
