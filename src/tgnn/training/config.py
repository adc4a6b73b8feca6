"""Configuration of a run: data, model, optimizer and training options, validated with pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tgnn.utils.io import hash_json
from tgnn.utils.read import read_content
from tgnn.utils.suggest import closest_match

if TYPE_CHECKING:
    from tgnn.data.tables.schema import ReadOptions

CLASSIFICATION_METRICS = ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "pr-auc", "log-loss")
REGRESSION_METRICS = ("mae", "rmse", "r2")
_METRICS = (*CLASSIFICATION_METRICS, *REGRESSION_METRICS)


class _Base(BaseModel):
    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans_as_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse ``true`` for an integer or a float, which pydantic would convert to 1."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and annotation is not bool and bool not in get_args(annotation):
            raise PydanticCustomError("boolean", "Input should not be true or false")
        return tuple(value) if isinstance(value, list) else value  # JSON and YAML have lists only


class Section(_Base):
    """Base of all sections: fields are fixed after construction, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class PreprocessingConfig(Section):
    """Transforms of node and edge features."""

    features: Literal["stored", "row-sum", "row-l2"] = Field(
        default="stored",
        description="Normalization of node features: none, or each node's features divided by their sum or L2 norm.",
    )
    edge_features: bool = Field(default=True, description="Whether to use edge features if the data has any.")
    positional_encoding: Literal["none", "random-walk", "laplacian"] = Field(
        default="none",
        description="Positional encoding of the nodes of many graphs: return probabilities of random walks, or "
        "eigenvectors of the normalized Laplacian with random signs in training.",
    )
    positional_channels: int = Field(
        default=20, ge=1, le=1000, description="Number of steps of the random walk, or of eigenvectors."
    )
    relative_positions: bool = Field(
        default=False,
        description="Whether to add relative positions and distances of nodes to the edge features of many graphs.",
    )


_LEFT_OUT_DEFAULTS = {
    "data": ("positional_encoding", "positional_channels", "relative_positions", "target", "id", "task"),
    "train": ("metric", "class_weight", "calibrate"),
}
"""Options whose default values are not hashed, because they were added after results had been stored."""
NOT_HASHED = {"data": ("root", "offline"), "train": ("threads", "save_every", "track", "workers", "baselines")}
"""Options that do not change a result."""


class DataSourceConfig(Section):
    """Data set and split."""

    name: str = Field(default="cora", description="Name in `tgnn data list`, or path to your own data.")
    root: str | None = Field(
        default=None, description="Folder with downloaded files, searched before the cache and the network."
    )
    offline: bool = Field(default=False, description="Never access the network.")
    split: str | None = Field(default=None, description="Split protocol; by default that of the data set.")
    target: tuple[str, ...] | None = Field(
        default=None, description="Column to predict in your own tables; several separated by commas."
    )
    id: str | None = Field(default=None, description="Column of ids in your own tables.")
    # TaskTypeName is not imported, because tgnn.data imports torch, which takes longer than `tgnn --help`.
    task: Literal["classification", "multi-label", "regression"] | None = Field(
        default=None, description="Task on your own tables; by default inferred from the labels."
    )

    @field_validator("target", mode="before")
    @classmethod
    def _parse_target(cls, value: Any) -> Any:
        """Accept ``"churn"`` and ``"a,b"``, as a command line gives them."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @property
    def read_options(self) -> ReadOptions:
        """Options for the reader of tables and molecules."""
        from tgnn.data.tables.schema import ReadOptions  # its package imports torch

        return ReadOptions(self.target or (), self.id, self.task)


class DataConfig(PreprocessingConfig, DataSourceConfig):
    """Data set, split and preprocessing."""


class ModelConfig(_Base):
    """Model and hyperparameters. Any other key is an argument of the model itself, such as `rank` of tgnn."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False, protected_namespaces=())

    name: str = Field(default="tgnn", description="Name in `tgnn models`.")
    hidden_channels: int = Field(default=32, ge=1, le=1_000_000, description="Number of hidden channels.")
    num_layers: int = Field(default=2, ge=1, le=1000, description="Number of layers.")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="Dropout probability of hidden features.")

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the model itself."""
        return dict(self.model_extra or {})


class ModelOptimizerConfig(Section):
    """Options of the optimizer that are hyperparameters of a model."""

    name: Literal["adam", "adamw"] = Field(default="adam", description="Optimizer.")
    lr: float = Field(default=0.01, gt=0, description="Learning rate of the optimizer.")
    weight_decay: float = Field(default=5e-4, ge=0, description="Weight decay of the optimizer.")
    cp_lr: float | None = Field(default=None, gt=0, description="Learning rate of the product branch; by default lr.")
    cp_weight_decay: float | None = Field(
        default=None, ge=0, description="Weight decay of the product branch; by default weight_decay."
    )


class ScheduleConfig(Section):
    """Options of the optimizer that depend on the number of epochs. All models share them on a data set."""

    schedule: Literal["constant", "cosine", "plateau"] = Field(
        default="constant", description="Learning rate schedule."
    )
    warmup: int = Field(default=0, ge=0, le=10**9, description="Number of epochs of linear learning rate warmup.")
    grad_clip: float | None = Field(
        default=None, gt=0, description="Maximum norm of the gradient; by default no clipping."
    )


class OptimizerConfig(ScheduleConfig, ModelOptimizerConfig):
    """Optimizer and learning rate schedule."""


class TrainConfig(Section):
    """Training budget, batches and hardware."""

    seed: int = Field(default=0, ge=0, le=2**31, description="Seed for initialization, shuffling and splitting.")
    epochs: int = Field(default=500, ge=1, le=10**9, description="Maximum number of epochs.")
    patience: int = Field(
        default=100,
        ge=1,
        le=10**9,
        description="Stop after this many epochs without improvement on the validation set.",
    )
    metric: str | None = Field(
        default=None,
        description="Metric of validation and test, which early stopping and selection use: "
        f"{', '.join(_METRICS)}; by default that of the data set.",
    )

    @field_validator("metric")
    @classmethod
    def _normalize_metric(cls, value: str | None) -> str | None:
        """Accept ``Macro F1`` and ``macro_f1``."""
        name = value and re.sub(r"[ _]+", "-", value.strip().lower())
        if name and name not in _METRICS:
            raise PydanticCustomError("metric", f"Input should be {', '.join(_METRICS[:-1])} or {_METRICS[-1]}")
        return name

    class_weight: Literal["none", "balanced"] = Field(
        default="none",
        description="Weights of the classes in the loss: equal, or inversely proportional to the class frequencies.",
    )
    calibrate: bool = Field(
        default=False, description="Whether to calibrate probabilities by temperature scaling on the validation set."
    )
    baselines: bool | None = Field(
        default=None,
        description="Whether to score two baselines on the test set: a constant prediction, and the same features "
        "without the graph; by default for your own data only.",
    )
    select_by: Literal["metric", "loss"] = Field(
        default="metric", description="Validation score that selects the best epoch."
    )
    prior_correction: Literal["none", "validation"] = Field(
        default="none",
        description="Class priors assumed at prediction: none keeps those of the training set, validation replaces "
        "them by those of the validation set (label shift correction).",
    )
    batch_size: int | None = Field(
        default=None, ge=1, le=2**31, description="Number of graphs, or of seed nodes with num_neighbors, per batch."
    )
    num_neighbors: tuple[Annotated[int, Field(ge=-1, le=2**31)], ...] | None = Field(
        default=None, max_length=1000, description="Number of neighbors to sample per hop, e.g. 10,5; -1 keeps all."
    )

    @field_validator("num_neighbors", mode="before")
    @classmethod
    def _parse_num_neighbors(cls, value: Any) -> Any:
        """Accept ``5`` and ``"5,5"``, as a command line gives them."""
        if not isinstance(value, int | str):
            return value
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            raise PydanticCustomError("integers", "Input should be integers separated by commas, e.g. 10,5") from None

    device: str = Field(default="auto", description="Device: auto, cpu, cuda, cuda:1 or mps.")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="Precision of matrix products."
    )
    track: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = Field(
        default=(), description="Experiment trackers to log to; each is an optional dependency."
    )
    save_every: float = Field(
        default=10.0, ge=0, le=1e9, description="Seconds between checkpoints; 0 saves one after every epoch."
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="Number of CPU threads; by default chosen by torch."
    )
    workers: int = Field(
        default=0, ge=0, le=256, description="Number of threads that sample batches; 0 samples in the main thread."
    )


class Config(Section):
    """Configuration of one run."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    train: TrainConfig = TrainConfig()

    def replace(self, section: str, **options: Any) -> Config:
        """Return a copy with other values of some options, which are not validated again.

        Example:
            >>> Config().replace("train", seed=3).train.seed
            3
        """
        return self.model_copy(update={section: getattr(self, section).model_copy(update=options)})

    @property
    def hash(self) -> str:
        """12 hexadecimal digits that identify :attr:`hashed_sections`."""
        return hash_json(self.hashed_sections)

    @property
    def hashed_sections(self) -> dict[str, dict[str, Any]]:
        """All options that can change a result. Locations of files, threads and logging are not among them."""
        sections = self.model_dump(mode="json")
        for section, keys in NOT_HASHED.items():
            for key in keys:
                del sections[section][key]
        for section, keys in _LEFT_OUT_DEFAULTS.items():
            for key in keys:
                if sections[section][key] == type(getattr(self, section)).model_fields[key].default:
                    del sections[section][key]
        return sections


class ConfigError(ValueError):
    """An unknown option or an invalid value. The message names it."""


def read_config(path: Path) -> Config:
    """Read ``config.yaml`` of a run. Its types are not converted, unlike those of a command line."""
    sections = read_content(path)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path} is damaged: it has no sections")
    try:
        return make_config(sections, strict=True)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def make_config(sections: Mapping[str, Any], strict: bool = False) -> Config:
    """Validate the sections of a configuration.

    Args:
        sections: Sections with their options. Missing options take their defaults.
        strict: Whether to refuse values of other types, such as ``"8"`` for 8.

    Raises:
        ConfigError: If an option is unknown or a value is invalid. The message names the option, the value and what
            is allowed.

    Example:
        >>> make_config({"optimizer": {"lr": 0.1}}).optimizer.lr
        0.1
        >>> make_config({"optimizer": {"learning": 0.1}})
        Traceback (most recent call last):
        tgnn.training.config.ConfigError: unknown option optimizer.learning; optimizer has name, lr, ...
    """
    try:
        config = Config.model_validate(sections, strict=strict)
    except ValidationError as error:
        raise ConfigError("; ".join(_explain(problem) for problem in error.errors())) from None
    _check_num_neighbors(config)
    return config


def _check_num_neighbors(config: Config) -> None:
    """Check that ``train.num_neighbors`` has one entry per hop of the model."""
    model, num_neighbors = config.model, config.train.num_neighbors
    if num_neighbors is None:
        return
    from tgnn.models import count_hops  # imports torch, which most callers of this module do not need

    hops = count_hops(model.name, model.num_layers, model.arguments)
    if hops == 0:
        raise ConfigError(f"{model.name} trains on the whole graph; remove train.num_neighbors (--sample)")
    if len(num_neighbors) != hops:
        example = ",".join(str(max(10 // 2**hop, 2)) for hop in range(hops))
        raise ConfigError(
            f"train.num_neighbors is {','.join(map(str, num_neighbors))}, but needs one number for each of the {hops} "
            f"hops that {model.name} aggregates, e.g. --sample {example}"
        )


def with_options(
    sections: Mapping[str, Any], options: Mapping[str, Any], model_keys: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the sections of a configuration with other values of single options, each named ``section.key``.

    The error of an unknown key suggests one of :func:`option_keys` or of the model's own keys, such as ``model.rank``.

    Example:
        >>> with_options({"model": {"rank": 8}}, {"model.rank": 16, "train.seed": 1})
        {'model': {'rank': 16}, 'train': {'seed': 1}}
    """
    result = {section: dict(fields) for section, fields in sections.items()}
    for key, value in options.items():
        section, dot, field = key.partition(".")
        if not dot or section not in Config.model_fields:
            suggestion = suggest_option(key, [*option_keys(), *model_keys]) or "optimizer.lr"
            raise ConfigError(f"unknown option {key!r}; options are written as section.key, e.g. {suggestion}")
        result.setdefault(section, {})[field] = value
    return result


def with_columns(
    options: Mapping[str, Any] | None, target: str | Sequence[str] | None, id: str | None, task: str | None
) -> Mapping[str, Any] | None:
    """Return options with the columns and the task of the user's own data, if they are given.

    Example:
        >>> with_columns({"train.epochs": 2}, "churn", None, None)
        {'train.epochs': 2, 'data.target': 'churn'}
    """
    given = {"target": target, "id": id, "task": task}
    columns = {f"data.{name}": value for name, value in given.items() if value is not None}
    if twice := columns.keys() & (options or {}).keys():
        name = min(twice)
        raise ConfigError(f"Give {name.removeprefix('data.')} or the option {name}, not both.")
    return {**(options or {}), **columns} if columns else options


def option_keys() -> list[str]:
    """List every option as ``section.key``, without the arguments of the models themselves."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    return [f"{section}.{key}" for section, schema in sections.items() for key in schema.model_fields]  # type: ignore[union-attr]


def suggest_option(key: str, known: list[str]) -> str | None:
    """Find the key that was probably meant: one with the same or a similar last part."""
    by_last_part = {name.rpartition(".")[2]: name for name in reversed(known)}
    return by_last_part.get(closest_match(key.rpartition(".")[2], by_last_part) or "")


def _explain(problem: Any) -> str:
    """Turn an error of pydantic into a message that names the option, the value and what is allowed."""
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] != "extra_forbidden":
        return f"{where} is {problem['input']!r}, but {problem['msg'].replace('Input should', 'it should', 1)}"
    section, _, field = where.partition(".")
    if section not in Config.model_fields or not field:
        return f"unknown section {where!r}; the sections are {', '.join(Config.model_fields)}"
    own = [key for key in option_keys() if key.startswith(f"{section}.")]
    suggestion = suggest_option(where, own) or suggest_option(where, option_keys())
    names = ", ".join(key.partition(".")[2] for key in own)
    return f"unknown option {where}; " + (f"did you mean {suggestion}?" if suggestion else f"{section} has {names}")
