"""What a program's own trackers hold, by their own readers: series of points, and episodes.

own_points(directory, stdout) gives [{"file", "kind", "steps", "series": {tag: [[step, value], …]}, "episodes": [[r, l], …]}].
`steps` says whether the file names the step of each point. NaN and infinities are their names, as mosaic writes them.
"""
import ast
import csv
import json
import math
import os
import re

STEPS = ("global_step", "step", "time/total_timesteps", "training_iteration")
# What says where a row belongs, or with which parameters; and of a row without a step, its epoch.
PLACES = re.compile("^(timestamp|pid|date|seed|config/.*)$")


def own_points(directory, stdout):
    found = []
    for root, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            path = os.path.join(root, name)
            for matches, read in READERS:
                if re.search(matches, name):
                    found.append(dict(read(path), file=os.path.relpath(path, directory)))
                    break
    printed = of_lines(stdout)
    if printed is not None:
        found.append(dict(printed, file="stdout"))
    # Of a logger's two files with the same rows mosaic reads one.
    copies = {f["file"][: -len("csv")] + "json" for f in found if f["file"].endswith("progress.csv")}
    names = {f["file"] for f in found}
    return [
        f for f in found
        if not (f["file"].endswith("progress.csv") and (f["file"][: -len("csv")] + "json") in copies & names)
        and not (f["file"].endswith("progress.csv") and f["file"][: -len("progress.csv")] + "result.json" in names)
    ]


def of_event_file(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    accumulator = EventAccumulator(path, size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    series = {}
    for tag in accumulator.Tags()["scalars"]:
        series[tag] = [[e.step, e.value] for e in accumulator.Scalars(tag)]
    for tag in accumulator.Tags()["tensors"]:
        metadata = accumulator.SummaryMetadata(tag)
        if metadata.plugin_data.plugin_name == "scalars":
            series[tag] = [[e.step, float(tensor_util.make_ndarray(e.tensor_proto))] for e in accumulator.Tensors(tag)]
    return {"kind": "event file", "steps": True, "series": named(series)}


def of_wandb(path):
    """W&B's log by its own messages: LevelDB's blocks of 32 KiB, each record a wandb_internal.Record."""
    from wandb.proto import wandb_internal_pb2

    with open(path, "rb") as file:
        data = file.read()
    series, at, whole = {}, 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6]
        if kind == 0:
            break
        whole += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record, whole = wandb_internal_pb2.Record.FromString(whole), b""
            if record.WhichOneof("record_type") == "history":
                row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                media = tuple(tag[: -len("_type")] for tag in row if tag.endswith("/_type"))
                for tag, value in row.items():
                    if not tag.startswith(("_",) + media) and to_number(value) is not None:
                        series.setdefault(tag, []).append([row["_step"], to_number(value)])
    return {"kind": "W&B log", "steps": True, "series": named(series)}


def of_table(path):
    with open(path, newline="") as file:
        return of_rows(csv.DictReader(file), "CSV")


def of_json_rows(path):
    with open(path) as file:
        return of_rows((flat(json.loads(line)) for line in file if line.strip()), "JSON")


def of_rows(rows, kind):
    series, stepped = {}, False
    for i, row in enumerate(rows):
        row = {tag: value for tag, value in row.items() if tag is not None and not PLACES.search(tag)}
        step = next((int(float(row[name])) for name in STEPS if row.get(name) not in (None, "")), None)
        stepped = stepped or step is not None
        for tag, value in row.items():
            number = to_number(value)
            if number is not None and tag not in STEPS and not (tag == "epoch" and step is None):
                series.setdefault(tag, []).append([step if step is not None else i, number])
    return {"kind": kind, "steps": stepped, "series": named(series)}


def of_monitor(path):
    with open(path, newline="") as file:
        file.readline()
        return {"kind": "Monitor", "series": {}, "episodes": [[float(r["r"]), int(r["l"])] for r in csv.DictReader(file)]}


def of_lines(path):
    """Printed objects, dictionaries and pairs. None where there are none."""
    series, episodes, stepped = {}, [], True
    with open(path, errors="replace") as file:
        for line in file:
            row = object_in(line.strip())
            if row is None:
                continue
            step = next((row[name] for name in STEPS if isinstance(row.get(name), int)), None)
            if step is None and "epoch" not in row:
                continue
            stepped = stepped and step is not None
            for tag, value in row.items():
                number = to_number(value)
                if number is not None and tag not in STEPS and tag != "episodic_return":
                    series.setdefault(tag, []).append([step, number])
                if tag == "episodic_return":
                    episodes.append(number)
    if not series and not episodes:
        return None
    return {"kind": "printed", "steps": stepped, "series": named(series), "returns": episodes}


def object_in(line):
    if line.startswith("{") and line.endswith("}"):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(line)
                return value if isinstance(value, dict) and not {"type", "event"} & set(value) else None
            except (ValueError, SyntaxError):
                pass
        return None
    pairs = re.findall(r"([A-Za-z_][\w/]*)=(\[?-?[\d.][\d.e+-]*\]?)", line)
    values = {key: to_number(value.strip("[]")) for key, value in pairs}
    for name in STEPS:
        if values.get(name) is not None:
            values[name] = int(values[name])
            return values
    return None


def flat(row, prefix=""):
    result = {}
    for key, value in row.items():
        if isinstance(value, dict):
            result.update(flat(value, prefix + key + "/"))
        else:
            result[prefix + key] = value
    return result


def to_number(value):
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value) if isinstance(value, str) and value.strip() else None
    except ValueError:
        return None


def named(series):
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    value = lambda v: v if math.isfinite(v) else names[str(v)]
    return {tag: [[s, value(v)] for s, v in points] for tag, points in series.items() if points}


READERS = (
    (r"\.tfevents\.", of_event_file),
    (r"\.wandb$", of_wandb),
    (r"monitor\.csv$", of_monitor),
    (r"^(progress|metrics|training).*\.csv$", of_table),
    (r"^(progress.*\.json|result\.json)$", of_json_rows),
)
