"""
The model: a network with one hidden layer.

Its variables are where its scope puts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from data import DIGITS, PIXELS, Split

BATCH_ROWS = 32


class Network(tf.Module):
    """64 pixels, a hidden layer, a score for each digit."""

    def __init__(self, *, hidden_units: int, seed: int) -> None:
        super().__init__()
        generator = np.random.default_rng(seed)
        first = generator.normal(0, PIXELS**-0.5, (PIXELS, hidden_units))
        second = generator.normal(0, hidden_units**-0.5, (hidden_units, len(DIGITS)))
        self.first = tf.Variable(first, dtype=tf.float32)
        self.first_bias = tf.Variable(tf.zeros(hidden_units))
        self.second = tf.Variable(second, dtype=tf.float32)
        self.second_bias = tf.Variable(tf.zeros(len(DIGITS)))

    @property
    def weights(self) -> tuple[tf.Variable, ...]:
        """All variables, in one order."""
        return (self.first, self.first_bias, self.second, self.second_bias)

    @tf.function(input_signature=[tf.TensorSpec((None, PIXELS), tf.float32, name="images")])
    def scores(self, images: tf.Tensor) -> tf.Tensor:
        """Return N x 10 scores of N x 64 images."""
        hidden = tf.nn.relu(images @ self.first + self.first_bias)
        return hidden @ self.second + self.second_bias


def batches(rows: Split, *, seed: int) -> tf.data.Dataset:
    """Return the training rows in batches, shuffled anew in every pass, without end."""
    images, labels = rows.train_images.astype("float32"), rows.train_labels
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    return dataset.shuffle(len(labels), seed=seed).repeat().batch(BATCH_ROWS)


def make_step(
    network: Network, learning_rate: float
) -> Callable[[Iterator[tuple[tf.Tensor, tf.Tensor]]], tf.Tensor]:
    """Return a function that trains on one batch and returns its loss."""

    @tf.function
    def step(iterator: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
        images, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = loss_of(network, images, labels)
        for variable, gradient in zip(network.weights, tape.gradient(loss, network.weights), strict=True):
            variable.assign_sub(learning_rate * gradient)
        return loss

    return step


def loss_of(network: Network, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return the mean cross-entropy."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network.scores(images))
    return tf.reduce_mean(losses)


def evaluate(network: Network, rows: Split) -> tuple[float, float]:
    """Return accuracy (0 to 1) and mean cross-entropy on the held-out rows."""
    images = tf.constant(rows.test_images, tf.float32)
    accuracy = (network.scores(images).numpy().argmax(axis=1) == rows.test_labels).mean()
    return float(accuracy), float(loss_of(network, images, rows.test_labels))
