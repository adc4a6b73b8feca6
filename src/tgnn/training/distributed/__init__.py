"""One run by several processes, on one machine or many: torch.distributed under torchrun, and nothing of our own."""
