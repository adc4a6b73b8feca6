"""Objective of a trial: train on each split and return the mean validation score. Test labels are never read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import optuna
import torch
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RetryHeartbeatStaleTrialCallback
from torch import Tensor

from tgnn.training.config import Config
from tgnn.training.loop import Epoch, Trainer
from tgnn.training.metrics import Task, compute_log_prior_ratio, is_better_epoch
from tgnn.training.parallel_runs import mute_logs
from tgnn.training.prepare import find_device, make_model, prepare_without_test, set_num_threads
from tgnn.tuning.search_space import SearchPlan
from tgnn.tuning.storage import DATABASE_ERRORS

REASON, SCORES = "reason", "scores"
"""User attributes of a trial: error message, and score on each split."""

_REPORTS = 5
"""Number of intermediate scores that a trial reports during its first split."""


class TwoFoldScore:
    """Validation score in which no example both selects the epoch and evaluates it.

    The validation set is divided into two halves. The epoch is selected on one half and evaluated on the other, in both
    directions, and the two scores are averaged. Selecting and evaluating on the same examples is optimistic, the more
    so the noisier the learning curve is, so that a search would prefer hyperparameters with noisy curves.

    If a half is too small for the metric (ROC-AUC needs both classes), all examples are used for both purposes.

    Args:
        task: The task, which defines the metric.
        targets: Targets of the validation set.
        select_by: ``"metric"`` or ``"loss"``, the quantity that selects the epoch.
        seed: Random seed of the division. Both halves are stratified by class, unless ``task`` applies a prior
            correction.
        train_targets: Classes of the training set. If ``task`` corrects for the class priors of the validation set,
            each half is evaluated with the priors that the other half estimates.
    """

    def __init__(
        self, task: Task, targets: Tensor, select_by: str, seed: int, train_targets: Tensor | None = None
    ) -> None:
        self._task, self._targets, self._select_by = task, targets, select_by
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
        # With prior correction, stratified halves would reveal each other's class priors.
        if targets.dim() == 1 and not task.log_prior_ratio:
            order = order[targets[order].argsort(stable=True)]
        halves = (order[0::2], order[1::2])
        self._halves = halves if self._can_evaluate(*halves) else (order, order)
        self._tasks = [self._with_priors_of(half, train_targets) for half in self._halves]
        self._best: list[tuple[tuple[float, float], float] | None] = [None, None]

    def _with_priors_of(self, half: Tensor, train_targets: Tensor | None) -> Task:
        """Return the task with the prior correction estimated on one half."""
        num_classes = len(self._task.log_prior_ratio)
        if not num_classes or train_targets is None:
            return self._task
        ratio = compute_log_prior_ratio(train_targets, self._targets[half], num_classes)
        return replace(self._task, log_prior_ratio=ratio)

    def _can_evaluate(self, *halves: Tensor) -> bool:
        """Return whether the metric is defined on each half."""
        width = self._targets[0].numel()
        if self._task.target == "classification":
            width = len(self._task.log_prior_ratio) or int(self._targets.max()) + 1
        try:
            for half in halves:
                self._task.evaluate(torch.zeros(len(half), width), self._targets[half])
        except ValueError:
            return False
        return all(map(len, halves))

    def update(self, outputs: Tensor) -> None:
        """Take the validation outputs ``[N, C]`` of one more epoch into account."""
        outputs = outputs.cpu()
        for selecting, evaluating in ((0, 1), (1, 0)):
            task, best = self._tasks[selecting], self._best[selecting]
            half, other = self._halves[selecting], self._halves[evaluating]
            metric_and_loss = task.evaluate(outputs[half], self._targets[half])
            if is_better_epoch(
                task.metric, self._select_by, metric_and_loss, (None, None) if best is None else best[0]
            ):
                self._best[selecting] = metric_and_loss, task.score(outputs[other], self._targets[other])

    @property
    def score(self) -> float:
        """Score of the epochs so far."""
        return fmean(best[1] for best in self._best if best is not None)


def validation_score(config: Config, on_epoch: Callable[[int, float], None] = lambda epoch, score: None) -> float:
    """Train a model and return its :class:`TwoFoldScore`. Nothing is printed or saved.

    ``on_epoch`` is called after every epoch with its number (from 0) and the score so far. It may raise to stop.
    """
    with mute_logs():  # warnings about hyperparameters are for users who set them, not for sampled ones
        set_num_threads(config)
        prepared = prepare_without_test(config)
        assert prepared.data.y is not None
        targets = prepared.data.y[prepared.split.val]
        train_targets = prepared.data.y[prepared.split.train]
        two_fold = TwoFoldScore(prepared.task, targets, config.train.select_by, config.train.seed, train_targets)

        def after_epoch(epoch: Epoch) -> None:
            two_fold.update(epoch.outputs)
            on_epoch(epoch.number, two_fold.score)

        model = make_model(config, prepared.shape).to(find_device(config.train.device))
        Trainer(model, prepared, config).fit(on_epoch=after_epoch)
    return two_fold.score


def evaluate_trial(trial: optuna.Trial, plan: SearchPlan, splits: range, check: Callable[[], None]) -> float:
    """Train with the hyperparameters of a trial and return the mean validation score over the splits.

    A trial that cannot be trained is stored as pruned, with its error message. Optuna's sampler ignores failed trials,
    but avoids the hyperparameters of pruned ones. A trial is queued again if ``check``, which is called after every
    epoch, interrupts it.
    """
    scores: list[float] = []
    try:
        params = {key: trial.suggest_categorical(key, values) for key, values in plan.space.items()}
        for split in splits:
            config = plan.trial_config(params, split)
            every = max(1, config.train.epochs // _REPORTS)

            def on_epoch(epoch: int, score: float, every: int = every) -> None:
                check()
                if not scores and (epoch + 1) % every == 0:  # later splits report at their end only
                    _report(trial, score, epoch + 1)

            score = validation_score(config, on_epoch)
            if not math.isfinite(score):
                raise ValueError("the validation metric is not finite")
            scores.append(score)
            if split != splits[-1]:
                _report(trial, fmean(scores), config.train.epochs * (split + 2))
    except (KeyboardInterrupt, OSError):  # OSError: a problem of the machine, not of the hyperparameters
        _queue_again(trial)
        raise
    except (optuna.TrialPruned, UpdateFinishedTrialError, *DATABASE_ERRORS):
        raise
    except Exception as error:
        trial.set_user_attr(REASON, str(error) or type(error).__name__)
        raise optuna.TrialPruned from error
    finally:
        trial.set_user_attr(SCORES, scores)
    return fmean(scores)


def _report(trial: optuna.Trial, score: float, step: int) -> None:
    if math.isfinite(score):
        trial.report(score, step)
        if trial.should_prune():
            raise optuna.TrialPruned


def _queue_again(trial: optuna.Trial) -> None:
    """Queue an interrupted trial again, with the same hyperparameters and the same number."""
    attempt = trial.study.trials[trial.number]
    if attempt.state.is_finished():  # another worker considered this one dead and has queued the trial already
        return
    attempt.system_attrs.pop("retry_history", None)  # an interrupt does not count as the death of a worker
    RetryHeartbeatStaleTrialCallback()(trial.study, attempt)
