"""Training: the loop, gradients, optimizers, logs and checkpoints."""
