"""Getting files: from the web, out of packages, out of archives. Checked before use, moved into place whole."""
