"""Training, evaluation and prediction: from a recipe to a run folder."""
