"""Where a study is kept: a file, or a database that many machines share."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import optuna
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

from tgnn.tuning.plan import Plan
from tgnn.tuning.work import hand_on

BEAT = 3
"""Seconds between two signs of life of a worker."""

Direction = Literal["maximize", "minimize"]

_FACTS = "tgnn"


class WrongStudy(ValueError):
    """A study that cannot be used, or a place where none can be kept; the text says why."""


def open_study(url: str, name: str, plan: Plan, direction: Direction, data: str) -> optuna.Study:
    """The study of that name, made if it is not there.

    Args:
        url: ``sqlite:///path`` or ``postgresql://...``.
        name: Of the study.
        plan: The search; that of a study that exists must be the same, but for the number of trials.
        direction: ``"maximize"`` or ``"minimize"``.
        data: Hash of the data.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=open_storage(url), study_name=name, direction=direction, load_if_exists=True)
    facts = {"plan": plan.hash, "data": data, "splits": plan.splits, "seed": plan.seed, "together": plan.together}
    found: dict[str, Any] = study.user_attrs.get(_FACTS) or {}
    if not found:
        study.set_user_attr(_FACTS, facts)
    for what, then in found.items():
        if then != facts[what] and what != "plan":
            raise WrongStudy(_changed(name, what, then, facts[what]))
    if found and found["plan"] != facts["plan"]:
        raise WrongStudy(_changed(name, "settings or ranges", found["plan"], facts["plan"]))
    return study


def _changed(name: str, what: str, then: Any, now: Any) -> str:
    return (
        f"the study {name} was begun with other {what} ({then} then, {now} now): continue it with what it had, or "
        "begin another with --out or --study"
    )


def open_storage(url: str) -> optuna.storages.RDBStorage:
    """The database; one that cannot be used is an error that says why."""
    try:
        is_file = make_url(url).get_backend_name() == "sqlite"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls signs of life experimental
            return optuna.storages.RDBStorage(
                url,
                engine_kwargs={"connect_args": {"timeout": 60}} if is_file else {"pool_pre_ping": True},
                heartbeat_interval=BEAT,
                grace_period=4 * BEAT,
                heartbeat_stale_trial_callback=hand_on,
            )
    except (ArgumentError, NoSuchModuleError) as error:
        raise WrongStudy(f"the storage {_safe(url)} cannot be read: give sqlite:///FILE or postgresql://...") from error
    except ImportError as error:
        raise ImportError(f"the storage needs {error.name}: pip install 'tgnn[postgres]'") from error
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise WrongStudy(f"the storage {_safe(url)} cannot be opened: {reason}") from error


def _safe(url: str) -> str:
    """Without the password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url if "@" not in url else f"...@{url.rpartition('@')[2]}"
