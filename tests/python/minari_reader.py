"""
minari_reader.py DIR ID TRUTH: opens the data set as Minari does, by Minari itself where it is installed, and compares
every array with what the worker wrote down. Prints which of the two read it.
"""
import json
import os
import sys

import numpy as np
import pyarrow.dataset

DIR, ID, TRUTH = sys.argv[1:]


def arrays(value):
    """Values, one step after the other, as arrays of each leaf."""
    if isinstance(value[0], dict):
        return {key: arrays([step[key] for step in value]) for key in value[0]}
    return np.array(value)


def same(read, said):
    if isinstance(said, dict):
        if isinstance(read, tuple):
            read = {str(i): part for i, part in enumerate(read)}
        return read.keys() == said.keys() and all(same(read[key], said[key]) for key in said)
    # A float of 32 bits is printed with all its digits.
    return read.shape == said.shape and np.array_equal(read, said.astype(read.dtype))


def columns(space, column):
    """As Minari's ParquetStorage decodes a column of a space."""
    kind = space["type"]
    if kind == "Dict":
        return {name: columns(inner, column.field(name)) for name, inner in space["subspaces"].items()}
    if kind == "Tuple":
        return tuple(columns(inner, column.field(str(i))) for i, inner in enumerate(space["subspaces"]))
    if kind == "Discrete":
        return column.to_numpy(zero_copy_only=False)
    shape = space.get("shape") or np.array(space.get("nvec", [0] * space.get("n", 0))).shape
    return np.stack(column.to_numpy(zero_copy_only=False)).reshape(-1, *shape)


def by_arrow():
    data = os.path.join(DIR, ID, "data")
    metadata = json.load(open(os.path.join(data, "metadata.json")))
    assert metadata["dataset_id"] == ID and metadata["data_format"] == "parquet", metadata
    spaces = {name: json.loads(metadata[name + "_space"]) for name in ("observation", "action")}
    folders = [os.path.join(data, str(i)) for i in range(metadata["total_episodes"])]
    dataset = pyarrow.dataset.dataset([
        pyarrow.dataset.dataset(folder, format="parquet", ignore_prefixes=["_", ".", "metadata.json"])
        for folder in folders
    ])
    batches = list(dataset.to_batches())
    assert len(batches) == len(folders), "one batch is one episode"
    steps = 0
    for folder, batch in zip(folders, batches):
        told = json.load(open(os.path.join(folder, "metadata.json")))
        steps += told["total_steps"]
        yield told, {
            "observations": columns(spaces["observation"], batch["observations"]),
            "actions": columns(spaces["action"], batch["actions"][:-1]),
            **{name: np.asarray(batch[name])[:-1] for name in ("rewards", "terminations", "truncations")},
        }
    assert steps == metadata["total_steps"]


def by_minari(minari):
    os.environ["MINARI_DATASETS_PATH"] = DIR
    assert ID in minari.list_local_datasets()
    dataset = minari.load_dataset(ID)
    assert len(dataset.sample_episodes(2)) == 2
    if dataset.env_spec is not None:
        assert dataset.recover_environment().observation_space == dataset.observation_space
    told = list(dataset.storage.get_episode_metadata(range(len(dataset))))
    for episode in dataset.iterate_episodes():
        for i in range(len(episode)):
            action = episode.actions[i] if not isinstance(episode.actions, (dict, tuple)) else None
            assert action is None or dataset.action_space.contains(action), action
        yield told[episode.id], vars(episode)


def compare(episodes):
    truth = {episode["seed"]: episode for episode in json.load(open(TRUTH))}
    for told, episode in episodes:
        said = truth.pop(told["seed"])
        assert told.get("options") == said["options"], told
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            assert same(episode[name], arrays(said[name])), (told, name, episode[name], said[name])
    assert truth == {}, truth


compare(by_arrow())
read_by = ["pyarrow"]
try:
    import minari
except ImportError:
    pass
else:
    compare(by_minari(minari))
    read_by.append("minari " + minari.__version__)
print(", ".join(read_by))
