"""Distributed training of one run with torch.distributed and torchrun, on one or several machines."""
