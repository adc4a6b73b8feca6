"""Validation of user data: the report that ``tgnn data check`` prints, and the checks behind it."""
