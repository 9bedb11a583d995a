"""Records a training in mosaic. One file without dependencies, Python 3.8 or later.

    import mosaic

    mosaic.init(config={"lr": 3e-4})
    mosaic.log({"loss": loss}, step=step)
    mosaic.episode(r=21.0, l=200)
    mosaic.checkpoint("model.pt", step=step)

In a program that mosaic did not start, every function does nothing. No function raises: if something cannot be recorded,
the module says so once on standard error. Each record is one line, written at once to the standard output that the process
had when it imported this module; sys.stdout may be redirected, and lines of several threads and processes do not mix.
"""
import functools
import json
import os
import sys
import threading
import time

__all__ = [
    "init", "log", "episode", "video", "checkpoint", "resume_path", "active",
    "SB3Callback", "LightningCallback", "RecordSteps",
]

# mosaic puts this file on its workers' Python path. Another module of this name takes precedence, wherever on the path it is.
_INSTALLED_IN = "python-helper"


def _another_module():
    """The spec of another module of this name, if this file is the one that mosaic installed; else None."""
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.basename(here) != _INSTALLED_IN:
        return None
    others = [p for p in sys.path if os.path.basename(os.path.abspath(p or os.getcwd())) != _INSTALLED_IN]
    spec = PathFinder.find_spec(__name__, others)
    if spec is None or spec.origin not in (None, "namespace"):
        return spec
    # Without __init__.py every directory counts as a package, even a directory of data.
    for place in spec.submodule_search_locations or ():
        for name in os.listdir(place):
            if name.endswith(".py") or os.path.isfile(os.path.join(place, name, "__init__.py")):
                return spec
    return None


def active():
    """Whether mosaic started this program; otherwise nothing is recorded."""
    return bool(os.environ.get("MOSAIC_RUN_ID"))


# ------------------------------------------------------------------------------------------------------------ writing


class _Output:
    """Writes whole lines to one descriptor. An unfinished line of the program there is ended first."""

    def __init__(self):
        self.lock = threading.Lock()
        self.fd = self.reader = None
        self.told = False
        if not active():
            return
        try:
            self.fd = os.dup(1)
        except OSError:
            return
        try:
            self.reader = os.open("/proc/self/fd/%d" % self.fd, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            pass

    def write(self, record):
        if self.fd is None:
            return
        line = json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"
        with self.lock:
            if self._in_a_line():
                line = b"\n" + line
            while line:
                line = line[os.write(self.fd, line):]

    def _in_a_line(self):
        try:
            size = os.fstat(self.fd).st_size
            return self.reader is not None and size > 0 and os.pread(self.reader, 1, size - 1) != b"\n"
        except OSError:
            return False  # A pipe or a terminal.

    def tell(self, what, error):
        """Warns once that something is not recorded."""
        if self.told:
            return
        self.told = True
        try:
            os.write(2, ("mosaic: %s is not recorded: %s: %s\n" % (what, type(error).__name__, error)).encode())
        except OSError:
            pass


_output = _Output()


def _after_fork():
    _output.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _never_raises(function):
    @functools.wraps(function)
    def guarded(*args, **kwargs):
        if not active():
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:  # A training must not fail for its records.
            _output.tell("what %s was given" % function.__name__, error)
            return None

    return guarded


# -------------------------------------------------------------------------------------------------------------- values

_MOST_ELEMENTS = 4096


def _plain(value, depth=0):
    """The value in JSON types: numbers of any library, arrays as lists, paths and everything else as text."""
    if value is None or isinstance(value, (bool, int, str)):
        # Subclasses, such as those of enum, may have their own text form.
        return value if type(value) in (bool, int, str, type(None)) else _plain_subclass(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, os.PathLike):
        return os.fspath(value) if isinstance(os.fspath(value), str) else os.fsdecode(os.fspath(value))
    if depth > 8:
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        if len(value) > _MOST_ELEMENTS:
            return "%s of %d elements" % (type(value).__name__, len(value))
        return [_plain(inner, depth + 1) for inner in value]
    # numpy, torch, jax, tensorflow: a tensor may be on another device, or have a gradient.
    for make_plain in ("detach", "cpu", "numpy"):
        method = getattr(value, make_plain, None)
        if callable(method):
            try:
                value = method()
            except Exception:
                break  # bfloat16 has no numpy form; item and tolist work.
    shape = getattr(value, "shape", None)
    if shape is not None:
        size = 1
        for length in shape:
            size *= int(length)
        if size > _MOST_ELEMENTS:
            return "array of shape %s" % (tuple(shape),)
    for method in ("tolist", "item"):
        if callable(getattr(value, method, None)):
            return _plain(getattr(value, method)(), depth + 1)
    if hasattr(value, "__dict__") and type(value).__name__ in ("Namespace", "SimpleNamespace"):
        return _plain(vars(value), depth + 1)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: _plain(getattr(value, name), depth + 1) for name in value.__dataclass_fields__}
    for method in ("__index__", "__float__"):
        if hasattr(type(value), method):
            return getattr(value, method)()
    return str(value)[:1000]


def _plain_subclass(value):
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return kind(value) if kind is not str else str.__str__(value)
    return None


def _number(value):
    """The value as a number, or None: an array of one element counts, a list does not."""
    value = _plain(value)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, (int, float)) else None


def _step(value):
    step = _number(value)
    return None if step is None or step != step else int(step)


def _record(kind, payload):
    _output.write({"event": kind, "ts_unix_ns": time.time_ns(), "payload": payload})


# ------------------------------------------------------------------------------------------------------------- calling

# Points that one record may have.
_POINTS = 64
# Fields that locate a record, and the run's own series: a metric with one of these names gets a prefix.
_TAKEN = frozenset((
    "episode episode_index episode_number step_index time_step seed episode_seed timestamp ts ts_unix_ns time pid "
    "start_time end_time payload_version reward episode_reward episode_length run_id"
).split())
_STEPS = ("global_step", "total_timesteps", "timesteps", "num_timesteps", "step", "iteration")


@_never_raises
def init(config=None, **values):
    """Records the run's parameters: a mapping, a Namespace, a dataclass, or keywords. Call it again to add some."""
    given = {} if config is None else _plain(config)
    if not isinstance(given, dict):
        raise TypeError("config is a %s; it must be a mapping, a Namespace or a dataclass" % type(config).__name__)
    given.update(_plain(values))
    _record("parameters", {"source": "init", "values": given})


@_never_raises
def log(data=None, step=None, **values):
    """
    Records numbers, each as a point of the metric of its name. Numbers in a nested mapping are called "outer.inner".

    step: their training step; default: a field such as "global_step". Names that mosaic uses
    itself, such as "reward" or "seed", are recorded as "log/reward", "log/seed".
    """
    points = {}
    _flatten(dict(data or {}, **values), "", points)
    for name in _STEPS:
        said = points.pop(name, None)
        step = said if step is None else step
    at = _step(step)
    names = list(points)
    for first in range(0, len(names), _POINTS):
        payload = {} if at is None else {"global_step": at}
        for name in names[first:first + _POINTS]:
            payload["log/" + name if name in _TAKEN else name] = points[name]
        _record("metrics", payload)


def _flatten(data, prefix, into):
    for key, value in data.items():
        name = prefix + str(key)
        if isinstance(value, dict):
            _flatten(value, name + ".", into)
            continue
        number = _number(value)
        if number is not None:
            into[name] = int(number) if isinstance(number, bool) else number


_episodes = 0


@_never_raises
def episode(r, l=0, t=None, terminated=True, truncated=False, **metadata):  # noqa: E741
    """Records an episode that has ended: its return `r`, its length `l` in steps, its duration `t` in seconds."""
    if t is not None:
        metadata["seconds"] = t
    _write_episode(_next_episode(), r, l, terminated, truncated, metadata)


def _next_episode():
    global _episodes
    _episodes += 1
    return _episodes - 1


def _write_episode(number, r, l, terminated, truncated, metadata):  # noqa: E741
    record = {
        "type": "episode",
        "episode": number,
        "ts_unix_ns": time.time_ns(),
        "total_reward": _number(r),
        "steps": _step(l) or 0,
        "terminated": bool(terminated),
        "truncated": bool(truncated),
    }
    if metadata:
        record["metadata"] = _plain(metadata)
    _output.write(record)


@_never_raises
def video(path, step=None, **more):
    """Records that there is a video at `path`."""
    _record("artifact", _file(path, step, dict(more, kind="video")))


@_never_raises
def checkpoint(path, step=None, **more):
    """Records that training can resume from the file at `path`: after a failure, `resume_path` returns it."""
    _record("checkpoint_saved", _file(path, step, more))


def _file(path, step, more):
    payload = dict(_plain(more), path=os.path.abspath(os.fsdecode(path)))
    if _step(step) is not None:
        payload["step"] = _step(step)
    return payload


def resume_path():
    """The checkpoint that this attempt resumes from; None if it starts from the beginning."""
    return os.environ.get("MOSAIC_RESUME_FROM") or None


# ------------------------------------------------------------------------------------------------- for other libraries


def _make_sb3_callback():
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import KVWriter

    class Writer(KVWriter):
        def write(self, key_values, key_excluded, step=0):
            log(key_values, step=step)

        def close(self):
            pass

    class SB3Callback(BaseCallback):
        """For `model.learn(..., callback=mosaic.SB3Callback())`: what SB3 logs, its episodes, and its parameters.

        save_every: steps between two checkpoints in `directory`; 0 for none.
        """

        def __init__(self, save_every=0, directory=None, verbose=0):
            super().__init__(verbose)
            self.save_every = int(save_every)
            self.directory = directory or os.environ.get("MOSAIC_CHECKPOINT_DIR") or "checkpoints"
            self.saved_at = 0

        def _on_training_start(self):
            model = self.model
            names = ("learning_rate", "gamma", "n_steps", "batch_size", "n_epochs", "ent_coef", "buffer_size", "tau", "seed")
            values = {name: getattr(model, name) for name in names if hasattr(model, name)}
            init({
                "algo": type(model).__name__,
                "policy": type(model.policy).__name__,
                "n_envs": model.n_envs,
                **{name: value for name, value in values.items() if isinstance(value, (int, float, str))},
            })
            if active():
                self.logger.output_formats.append(Writer())
            self.saved_at = self.num_timesteps

        def _on_step(self):
            for info in self.locals.get("infos", ()):
                ended = info.get("episode")
                if ended is not None:
                    truncated = bool(info.get("TimeLimit.truncated", False))
                    episode(ended["r"], ended["l"], ended.get("t"), not truncated, truncated,
                            global_step=self.num_timesteps)
            if self.save_every > 0 and active() and self.num_timesteps - self.saved_at >= self.save_every:
                self.saved_at = self.num_timesteps
                path = os.path.join(self.directory, "model_%d_steps.zip" % self.num_timesteps)
                try:
                    os.makedirs(self.directory, exist_ok=True)
                    self.model.save(path)
                    checkpoint(path, step=self.num_timesteps)
                except Exception as error:
                    _output.tell("the checkpoint %s" % path, error)
            return True

    return SB3Callback


def _make_lightning_callback():
    try:
        from lightning.pytorch.callbacks import Callback
        from lightning.pytorch.loggers.logger import Logger
    except ImportError:
        from pytorch_lightning.callbacks import Callback
        from pytorch_lightning.loggers.logger import Logger

    class MosaicLogger(Logger):
        name = "mosaic"
        version = os.environ.get("MOSAIC_ATTEMPT", "")

        def __init__(self):
            super().__init__()
            self.saved = None

        def log_hyperparams(self, params, *args, **kwargs):
            init(params if isinstance(params, dict) else vars(params))

        def log_metrics(self, metrics, step=None):
            log(metrics, step=step)

        def after_save_checkpoint(self, checkpoint_callback):
            path = getattr(checkpoint_callback, "_last_checkpoint_saved", "") or checkpoint_callback.last_model_path \
                or checkpoint_callback.best_model_path
            if path and path != self.saved:
                self.saved = path
                checkpoint(path, step=getattr(checkpoint_callback, "_last_global_step_saved", None))

    class LightningCallback(Callback):
        """For `Trainer(callbacks=[mosaic.LightningCallback()])`: logged values, hyperparameters and checkpoints."""

        def setup(self, trainer, pl_module, stage=None):
            if active() and trainer.is_global_zero and not any(isinstance(l, MosaicLogger) for l in trainer.loggers):
                trainer.loggers = list(trainer.loggers) + [MosaicLogger()]

    return LightningCallback


def _make_record_steps():
    import gymnasium

    class RecordSteps(gymnasium.Wrapper):
        """A Gymnasium environment that records every step and episode, and once the environment itself.

        observations: also record observations, except those of more than `most` numbers (images).
        """

        def __init__(self, env, observations=True, most=256):
            super().__init__(env)
            self._observations = observations
            self._most = most
            self._index = 0
            self._total = 0.0
            self._episode = self._reset = None
            self._worker = _worker_name()
            self._record_environment()

        def reset(self, **kwargs):
            self._index, self._total, self._episode = 0, 0.0, None
            result = self.env.reset(**kwargs)
            self._reset = result[0], kwargs
            return result

        def step(self, action):
            result = self.env.step(action)
            self._record(action, *result[:4])
            return result

        @_never_raises
        def _record_environment(self):
            payload = {}
            spec = self.env.spec
            if spec is not None:
                payload["env_id"] = spec.id
                try:
                    payload["env_spec"] = spec.to_json()
                except (TypeError, ValueError):
                    pass  # Its arguments are not JSON: only the name is recorded.
            for name in ("observation_space", "action_space"):
                described = json.dumps(_space(getattr(self.env, name)))
                if described != "null" and len(described) <= _LONGEST_SPACE:
                    payload[name] = described
            if payload not in _environments:
                _environments.append(payload)
                _record("environment", payload)

        @_never_raises
        def _record(self, action, observation, reward, terminated, truncated):
            if self._episode is None:
                self._episode = _next_episode()
            record = {
                "type": "step",
                "episode": self._episode,
                "step": self._index,
                "ts_unix_ns": time.time_ns(),
                "action": _plain(action),
                "reward": _number(reward),
                "terminated": bool(terminated),
                "truncated": bool(truncated),
            }
            if self._worker is not None:
                record["worker_id"] = self._worker
            if self._observations and _size(observation) <= self._most:
                record["observation"] = _plain(observation)
                if self._index == 0 and self._reset is not None:
                    record["reset"] = self._how_reset()
            _output.write(record)
            self._index += 1
            self._total += float(reward)
            if terminated or truncated:
                _write_episode(self._episode, self._total, self._index, terminated, truncated, {})
                self._episode = None
                self._index, self._total, self._reset = 0, 0.0, None

        def _how_reset(self):
            """A step has the observation after its action; so the first step also has the one before it."""
            observation, kwargs = self._reset
            reset = {"observation": _plain(observation)}
            for name in ("seed", "options"):
                if kwargs.get(name) is not None:
                    reset[name] = _plain(kwargs[name])
            return reset

    return RecordSteps


# Recorded environments. The bounds of an image space are too long to record.
_environments = []
_LONGEST_SPACE = 65536


def _worker_name():
    """Each process that a training starts counts its own episodes."""
    import multiprocessing

    return multiprocessing.current_process().name if multiprocessing.parent_process() is not None else None


def _space(space):
    """The Gymnasium space in the form of Minari's datasets; None for a space that Minari does not have."""
    kind = type(space).__name__
    if kind == "Box":
        return {"type": kind, "dtype": str(space.dtype), "shape": list(space.shape),
                "low": space.low.tolist(), "high": space.high.tolist()}
    if kind == "Discrete":
        return {"type": kind, "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if kind == "MultiDiscrete":
        return {"type": kind, "dtype": str(space.dtype), "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if kind == "MultiBinary":
        return {"type": kind, "n": _plain(space.n)}
    if kind == "Text":
        return {"type": kind, "max_length": space.max_length, "min_length": space.min_length, "charset": space.characters}
    if kind == "Dict":
        inner = {key: _space(value) for key, value in space.spaces.items()}
        return None if None in inner.values() else {"type": kind, "subspaces": inner}
    if kind == "Tuple":
        inner = [_space(value) for value in space.spaces]
        return None if None in inner else {"type": kind, "subspaces": inner}
    return None


def _size(value):
    if isinstance(value, dict):
        return sum(_size(inner) for inner in value.values())
    if isinstance(value, (tuple, list)):
        return sum(_size(inner) for inner in value)
    return int(getattr(value, "size", 1))


_MADE_WHEN_ASKED = {
    "SB3Callback": _make_sb3_callback,
    "LightningCallback": _make_lightning_callback,
    "RecordSteps": _make_record_steps,
}


def __getattr__(name):
    make = _MADE_WHEN_ASKED.get(name)
    if make is None:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    made = globals()[name] = make()
    return made


_other = _another_module()
if _other is not None:
    from importlib.util import module_from_spec

    sys.modules[__name__] = module_from_spec(_other)
    if _other.loader is not None:
        _other.loader.exec_module(sys.modules[__name__])
