"""Cross-validation, grid search and saving of a NodeClassifier with scikit-learn. No download needed.

The nodes are 1,797 handwritten digits, each connected to its 8 nearest neighbors. 200 of them are labeled.
A logistic regression sees the pixels of each digit only. A NodeClassifier also sees those of its neighbors.
Both are evaluated on the same folds. Run: python examples/estimator.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split

from tgnn import NodeClassifier
from tgnn.data.catalog.embedded import digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60, help="Maximum number of epochs.")
    args = parser.parse_args()

    data = digits()
    pixels, y = data.x.numpy(), data.y.numpy()
    train, test = train_test_split(np.arange(len(y)), train_size=200, stratify=y, random_state=0)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)

    baseline = cross_val_score(LogisticRegression(max_iter=1000), pixels[train], y[train], cv=folds)
    print(f"logistic regression, 4-fold accuracy: {baseline.mean():.3f}")

    # The graph is a parameter, so that scikit-learn can divide the node indices into folds.
    model = NodeClassifier(graph=data, epochs=args.epochs, random_state=0)
    search = GridSearchCV(model, {"rank": [0, 16]}, cv=folds).fit(train, y[train])  # rank 0 is sum pooling only
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"]):
        print(f"NodeClassifier with rank {params['rank']}, 4-fold accuracy: {score:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.safetensors"
        search.best_estimator_.save(path)
        loaded = NodeClassifier.load(path).set_params(graph=data)  # the graph is not saved
    print(f"best NodeClassifier, accuracy on {len(test)} test nodes: {loaded.score(test, y[test]):.3f}")


if __name__ == "__main__":
    main()
