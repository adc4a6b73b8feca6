"""Every speed and memory figure that the documentation gives: ``make bench``."""
