"""Models by name: ours, and the systems that the paper compares with. One file each; PyG's own wherever PyG has it."""

from tgnn.models.registry import MODELS, Model, build_model, get_model

__all__ = ["MODELS", "Model", "build_model", "get_model"]
