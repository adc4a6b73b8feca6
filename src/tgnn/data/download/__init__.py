"""Download of data sets: files from the web, from packages and from archives, verified and cached."""
