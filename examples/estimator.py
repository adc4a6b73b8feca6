"""A graph in scikit-learn: cross-validation, grid search, a model in a file. The digits need no download.

1,797 handwritten digits are the nodes of a graph, each linked to its 8 nearest neighbours; 200 of them have a label.
scikit-learn's logistic regression reads the pixels of each digit alone, a NodeClassifier those of its neighbours too.
Both are scored on the same folds. Run: python examples/estimator.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split

from tgnn import NodeClassifier
from tgnn.data.build.embedded import digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    data = digits()
    pixels, y = data.x.numpy(), data.y.numpy()
    learn, test = train_test_split(np.arange(len(y)), train_size=200, stratify=y, random_state=0)
    folds = StratifiedKFold(4, shuffle=True, random_state=0)

    alone = cross_val_score(LogisticRegression(max_iter=1000), pixels[learn], y[learn], cv=folds)
    print(f"pixels alone, 4 folds: {alone.mean():.3f}")

    model = NodeClassifier(graph=data, epochs=arguments.epochs, random_state=0)
    search = GridSearchCV(model, {"rank": [0, 16]}, cv=folds).fit(learn, y[learn])  # rank 0: sums only
    for settings, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"]):
        print(f"with neighbours, rank {settings['rank']}, 4 folds: {score:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        search.best_estimator_.save(Path(folder) / "digits.safetensors")
        again = NodeClassifier.load(Path(folder) / "digits.safetensors").set_params(graph=data)
    print(f"the best of them on the {len(test)} digits left: {again.score(test, y[test]):.3f}")


if __name__ == "__main__":
    main()
