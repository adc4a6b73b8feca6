"""Validation of data: the report that users read, and the checks behind it."""
