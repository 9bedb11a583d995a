"""Keras with its CSVLogger."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(256, 4)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y, epochs=12, verbose=2, validation_split=0.2, callbacks=[keras.callbacks.CSVLogger("training.csv")])
