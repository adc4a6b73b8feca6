"""Everything that decides a run, in four sections. Unknown keys are errors; every field says what it is for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tgnn.utils.suggest import closest_match


class _Base(BaseModel):
    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Else it would be taken for 1."""
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise PydanticCustomError("yes_or_no", "it is not a question of true or false")
        return value


class _Section(_Base):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class DataConfig(_Section):
    """What to learn from."""

    name: str = Field(default="cora", description="A name of `tgnn data list`, or a path to your own data.")
    root: str | None = Field(default=None, description="Folder with files, looked into before cache and network.")
    offline: bool = Field(default=False, description="Never touch the network.")
    split: str | None = Field(default=None, description="Split protocol; by default that of the data set.")
    features: Literal["stored", "row-sum", "row-l2"] = Field(
        default="stored", description="Features as stored, or each row divided by its sum or its length."
    )
    edge_features: bool = Field(default=True, description="Whether to use edge features where there are any.")


class ModelConfig(_Base):
    """What learns. Any other key is an argument of the model itself, such as `rank` or `factors` of tgnn."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    name: str = Field(default="tgnn", description="A name of `tgnn models`.")
    hidden_channels: int = Field(default=32, ge=1, description="Width of hidden layers.")
    num_layers: int = Field(default=2, ge=1, description="Number of layers.")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="Share of hidden entries dropped in training.")

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the model itself."""
        return dict(self.model_extra or {})


class OptimizerConfig(_Section):
    """How weights move."""

    name: Literal["adam", "adamw"] = Field(default="adam", description="Which optimizer.")
    lr: float = Field(default=0.01, gt=0, description="Step size.")
    weight_decay: float = Field(default=5e-4, ge=0, description="Decay of weights.")
    cp_lr: float | None = Field(default=None, gt=0, description="Step size of the product branch, if it differs.")
    cp_weight_decay: float | None = Field(default=None, ge=0, description="Decay in the product branch, if it differs.")
    schedule: Literal["constant", "cosine", "plateau"] = Field(
        default="constant", description="How the step size changes."
    )
    warmup: int = Field(default=0, ge=0, description="Epochs over which the step size rises from 0 at the start.")
    grad_clip: float | None = Field(default=None, gt=0, description="Largest norm of a gradient.")


class TrainConfig(_Section):
    """How long, on what, how exactly."""

    seed: int = Field(default=0, ge=0, le=2**31, description="Of weights, dropout, batches and the split.")
    epochs: int = Field(default=500, ge=1, description="At most so many.")
    patience: int = Field(default=100, ge=1, description="Stop after so many epochs without a better one.")
    select_by: Literal["metric", "loss"] = Field(
        default="metric", description="By which figure of validation the best epoch is chosen."
    )
    prior_correction: Literal["none", "validation"] = Field(
        default="none",
        description="Shares of classes that are expected: as in what is learned from, or as in validation.",
    )
    batch_size: int | None = Field(
        default=None, ge=1, description="Graphs, or seed nodes, in a batch. Nodes: all if not set."
    )
    num_neighbors: tuple[int, ...] | None = Field(
        default=None, description="Neighbours sampled at each step away, -1 for all; not set: full neighbourhoods."
    )

    @field_validator("num_neighbors", mode="before")
    @classmethod
    def _one_or_with_commas(cls, value: Any) -> Any:
        """``5`` and ``5,5``, as a command line gives them."""
        if not isinstance(value, int | str):
            return value
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            raise PydanticCustomError("numbers", "it is not a list of numbers such as 10,5") from None

    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1, mps.")
    precision: Literal["float32", "bfloat16", "float16"] = Field(default="float32", description="Of matrix products.")
    track: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = Field(
        default=(), description="Programs that watch the run; each is an extra to install."
    )
    save_every: float = Field(default=10.0, ge=0, description="Seconds between checkpoints; 0: after every epoch.")
    threads: int | None = Field(default=None, ge=1, description="CPU threads; by default torch's choice.")
    workers: int = Field(default=0, ge=0, description="Threads that sample ahead; 0: the one that trains.")


class Config(_Section):
    """One run."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()

    @property
    def hash(self) -> str:
        """12 hexadecimal digits that tell :attr:`what_counts`."""
        return hashlib.sha256(json.dumps(self.what_counts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def what_counts(self) -> dict[str, dict[str, Any]]:
        """Everything that can change a result (not where files lie), by sections."""
        plain = self.model_dump(mode="json")
        for key in ("root", "offline"):
            del plain["data"][key]
        for key in ("threads", "save_every", "track", "workers"):
            del plain["train"][key]
        return plain


class ConfigError(ValueError):
    """A setting that does not exist or cannot be; the text names it."""


def make_config(settings: Mapping[str, Any]) -> Config:
    """Validates settings; an error names the key, its value and the nearest key that exists.

    Args:
        settings: Sections with their fields.

    Example:
        >>> make_config({"optimizer": {"lr": 0.1}}).optimizer.lr
        0.1
        >>> make_config({"optimizer": {"learning": 0.1}})
        Traceback (most recent call last):
        tgnn.training.config.ConfigError: there is no setting optimizer.learning; optimizer has name, lr, ...
    """
    try:
        config = Config.model_validate(settings)
    except ValidationError as error:
        raise ConfigError("; ".join(_plain(problem) for problem in error.errors())) from None
    _check_sample(config)
    return config


def _check_sample(config: Config) -> None:
    """Neighbours are sampled as far as the model sees."""
    model, sample = config.model, config.train.num_neighbors
    if sample is None:
        return
    from tgnn.models.registry import count_hops  # not needed to look at settings

    hops = count_hops(model.name, model.num_layers, model.arguments)
    if hops == 0:
        raise ConfigError(f"{model.name} learns from the whole graph: leave train.num_neighbors out")
    if len(sample) != hops:
        such = ",".join(str(max(10 // 2**hop, 2)) for hop in range(hops))
        many = "1 number" if hops == 1 else f"{hops} numbers"
        layers = f"{model.num_layers} layer{'s' * (model.num_layers > 1)}"
        why = (
            f"{layers} need{'s' * (hops == 1)}"
            if hops == model.num_layers
            else f"{model.name} looks {hops} steps far and needs"
        )
        raise ConfigError(f"train.num_neighbors is {','.join(map(str, sample))}: {why} {many}, such as --sample {such}")


def with_changes(settings: Mapping[str, Any], changes: Mapping[str, Any], more: Iterable[str] = ()) -> dict[str, Any]:
    """Settings with some replaced, each named as ``section.field``.

    Args:
        settings: Sections with their fields.
        changes: What to replace.
        more: Keys that exist beside :func:`all_keys`: those of the model's own, to be suggested.

    Example:
        >>> with_changes({"model": {"rank": 8}}, {"model.rank": 16, "train.seed": 1})
        {'model': {'rank': 16}, 'train': {'seed': 1}}
    """
    result = {section: dict(fields) for section, fields in settings.items()}
    for key, value in changes.items():
        section, dot, field = key.partition(".")
        if not dot or section not in Config.model_fields:
            near = _nearest(key, [*all_keys(), *more])
            raise ConfigError(f"there is no setting {key!r}: settings are written section.key, such as {near}")
        result.setdefault(section, {})[field] = value
    return result


def _nearest(key: str, known: list[str]) -> str:
    """The key that may have been meant: one that ends alike, else one that looks alike."""
    last = key.rpartition(".")[2]
    ends = {name.rpartition(".")[2]: name for name in reversed(known)}
    if last not in ends:
        last = closest_match(last, ends, cutoff=0.7) or ""
    return ends.get(last) or closest_match(key, known, cutoff=0.3) or "optimizer.lr"


def all_keys() -> list[str]:
    """Every setting, as ``section.field``; the model's own arguments are not among them."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    return [f"{section}.{field}" for section, kind in sections.items() for field in kind.model_fields]  # type: ignore[union-attr]


def _plain(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        section, _, field = where.partition(".")
        if section in Config.model_fields and field:
            fields = [key.partition(".")[2] for key in all_keys() if key.startswith(f"{section}.")]
            meant = closest_match(field, fields)
            near = [f"{section}.{meant}"] if meant else [key for key in all_keys() if key.endswith(f".{field}")]
            hint = f"did you mean {near[0]}?" if near else f"{section} has {', '.join(fields)}"
            return f"there is no setting {where}; {hint}"
        return f"there is no section {where!r}; sections are {', '.join(Config.model_fields)}"
    return f"{where} is {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
