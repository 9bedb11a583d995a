"""Records a training in mosaic. One file without dependencies, Python 3.8 or later.

    import mosaic

    mosaic.init(config={"lr": 3e-4})
    mosaic.log({"loss": loss}, step=step)
    mosaic.episode(r=21.0, l=200)
    mosaic.checkpoint("model.pt", step=step)

In a program that mosaic did not start, every function does nothing. No function raises: if something cannot be recorded,
the module says so once on standard error. Each record is one line, written at once to the standard output that the process
had when it imported this module; sys.stdout may be redirected, and lines of several threads and processes do not mix.

    mosaic.runs(where="lr<1e-3").to_pandas()
    mosaic.get_run("@last").metrics("loss")
    mosaic.submit("python train.py --lr 1e-3", name="lr-3").wait()

read from a daemon, submit to it, and raise MosaicError.
"""
import functools
import json
import os
import sys
import threading
import time

__all__ = [
    "init", "log", "episode", "video", "checkpoint", "resume_path", "use_artifact", "active",
    "runs", "get_run", "submit", "sweep", "Daemon", "Run", "Runs", "Sweep", "Table", "MosaicError",
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


def use_artifact(artifact):
    """The path of an artifact of another run: "RUN:checkpoints/best.pt", or "policy:best". The run's lineage has it then.

    Raises MosaicError if there is no such artifact. In a program that mosaic has not started nothing is recorded.
    """
    for use in json.loads(os.environ.get("MOSAIC_USES") or "[]"):
        if use["artifact"] == artifact:
            return use["file"]
    path = Daemon().call("mosaic.v1.Mosaic/GetNamedArtifact", {"artifact": artifact})["file"]
    _record_use(artifact)
    return path


@_never_raises
def _record_use(artifact):
    _record("use_artifact", {"artifact": artifact})


# ------------------------------------------------------------------------------------------------------------ reading


class MosaicError(Exception):
    """What a daemon or its address refused. `code` is that of the API, such as "not_found"."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Daemon:
    """Calls a daemon's API (docs/reference/wire.md): Connect with JSON, over its Unix socket or HTTP.

    target: "unix:PATH", "HOST:PORT" or "http(s)://HOST:PORT"; default $MOSAIC_TARGET, else the daemon of the state
    directory ($MOSAIC_STATE_DIR, else ~/.local/state/mosaic). token: default $MOSAIC_TOKEN. Another machine's daemon needs
    TLS; $MOSAIC_TLS_CA names its certificate authority.
    """

    def __init__(self, target=None, token=None, timeout=60.0):
        self.target = target or os.environ.get("MOSAIC_TARGET") or _target_of_state_dir()
        self.token = token or os.environ.get("MOSAIC_TOKEN")
        self.timeout = timeout

    def _connection(self):
        import http.client
        import socket
        import ssl
        from urllib.parse import urlsplit

        if self.target.startswith("unix:"):
            connection = http.client.HTTPConnection("localhost", timeout=self.timeout)
            connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.sock.settimeout(self.timeout)
            connection.sock.connect(self.target[5:])
            return connection
        address = urlsplit(self.target if "://" in self.target else "http://" + self.target)
        if address.hostname is None or address.port is None:
            raise MosaicError("invalid_argument", "%r is not an address; use HOST:PORT or unix:PATH" % self.target)
        if address.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get("MOSAIC_TLS_CA"))
            return http.client.HTTPSConnection(address.hostname, address.port, timeout=self.timeout, context=context)
        if self.token and address.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise MosaicError("failed_precondition", "a token is not sent unencrypted to %s: use https://" % self.target)
        return http.client.HTTPConnection(address.hostname, address.port, timeout=self.timeout)

    def _post(self, method, content_type, body):
        headers = {"content-type": content_type, "connect-protocol-version": "1"}
        if self.token:
            headers["authorization"] = "Bearer " + self.token
        try:
            connection = self._connection()
            connection.request("POST", "/" + method, body, headers)
            return connection, connection.getresponse()
        except OSError as error:
            raise MosaicError(
                "unavailable", "no daemon answers at %s: %s. Start one with \"mosaic up\"." % (self.target, error)
            ) from error

    def call(self, method, request):
        """One unary call, such as call("mosaic.v1.Mosaic/GetRun", {"run": "@last"}); the answer as a dict."""
        connection, answer = self._post(method, "application/json", json.dumps(request))
        try:
            body = answer.read()
        finally:
            connection.close()
        if answer.status == 200:
            return json.loads(body)
        raise _refusal(body, answer.status)

    def stream(self, method, request):
        """The messages of a call that answers with a stream, as dicts."""
        message = json.dumps(request).encode()
        body = b"\0" + len(message).to_bytes(4, "big") + message
        connection, answer = self._post(method, "application/connect+json", body)
        try:
            if answer.status != 200:
                raise _refusal(answer.read(), answer.status)
            while True:
                head = answer.read(5)
                if len(head) < 5:
                    raise MosaicError("unavailable", "the daemon has ended the stream before its end")
                payload = answer.read(int.from_bytes(head[1:], "big"))
                if head[0] & 2:
                    end = json.loads(payload or b"{}")
                    if "error" in end:
                        raise _refusal(json.dumps(end["error"]).encode(), 200)
                    return
                yield json.loads(payload)
        finally:
            connection.close()

    def runs(self, where="", tags=(), name="", states=(), sort="", limit=None):
        request = {"where": where, "tags": _several(tags), "nameContains": name, "states": _several(states), "sort": sort}
        found = Runs()
        while limit is None or len(found) < limit:
            page = self.call(
                "mosaic.v1.Mosaic/ListRuns",
                dict(request, limit=min(1000, (limit or 10**9) - len(found)), columns=["param.*", "reward"]),
            )
            values = page.get("values", [])
            for row, value in zip(page.get("runs", []), values):
                parameters, reward = [json.loads(text) for text in value["json"]]
                found.append(Run(self, row, dict(parameters or []), reward))
            request["pageToken"] = page.get("nextPageToken", "")
            if not request["pageToken"]:
                break
        return found

    def get_run(self, run):
        row = self.call("mosaic.v1.Mosaic/GetRun", {"run": run})
        parameters = {one["name"]: json.loads(one["valueJson"]) for one in row.get("parameters", [])}
        return Run(self, row, parameters)

    def submit(self, command=None, config=None, name=None, tags=(), gpus=0, env=None, cwd=None, **options):
        if (command is None) == (config is None):
            raise MosaicError("invalid_argument", "submit takes either a command or a config")
        if config is None:
            config = _config_of(command, name, _several(tags), gpus, env, cwd, options)
        answer = self.call("gymgui.trainer.TrainerService/SubmitRun", {"configJson": json.dumps(config)})
        return self.get_run(answer["runId"])

    def sweep(self, command, name, grid=None, points=None, seeds=None, metric=None, max_parallel=None, tags=(), gpus=0,
              env=None, cwd=None, **options):
        config = _config_of(command, name, _several(tags), gpus, env, cwd, options)
        part = {"axes": [{"name": key, "values": list(values)} for key, values in (grid or {}).items()]}
        if points is not None:
            part["rows"] = [dict(point) for point in points]
        if seeds is not None:
            part["seeds"] = {"name": "seed", "values": list(range(seeds)) if isinstance(seeds, int) else list(seeds)}
        spec = {"name": name, "config": config, "pass": "flags", "parts": [part], "budget": {}}
        if metric is not None:
            known, goal = metric.rsplit(":", 1) if metric.endswith((":max", ":min")) else (metric, "max")
            spec["metric"] = {"name": known, "goal": goal}
        if max_parallel is not None:
            spec["max_parallel"] = max_parallel
        return Sweep(self, self.call("mosaic.v1.Mosaic/CreateSweep", {"specJson": json.dumps(_plain(spec))}))


def _target_of_state_dir():
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    directory = os.environ.get("MOSAIC_STATE_DIR") or os.path.join(home, "mosaic")
    trainer = os.path.join(directory, "trainer")
    if os.environ.get("MOSAIC_RUN_DIR") and not os.environ.get("MOSAIC_STATE_DIR"):
        # Of a run: its own daemon.
        trainer = os.path.dirname(os.path.dirname(os.environ["MOSAIC_RUN_DIR"]))
    try:
        with open(os.path.join(trainer, "daemon.json")) as file:
            return "unix:" + json.load(file)["socket"]
    except (OSError, ValueError, KeyError) as error:
        raise MosaicError(
            "unavailable", "no daemon runs in %s. Start one with \"mosaic up\", or set MOSAIC_TARGET." % directory
        ) from error


def _refusal(body, status):
    try:
        error = json.loads(body)
        return MosaicError(error["code"], error.get("message", error["code"]))
    except (ValueError, KeyError, TypeError):
        return MosaicError("unavailable", "the answer of status %d is not mosaic's: %r" % (status, body[:200]))


def _several(words):
    return [words] if isinstance(words, str) else list(words)


def _config_of(command, name, tags, gpus, env, cwd, options):
    import shlex
    import shutil
    import uuid

    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    if not words:
        raise MosaicError("invalid_argument", "the command is empty")
    program = shutil.which(words[0]) or words[0]
    metadata = {
        "tags": tags,
        "submission": {"by": "python", "nonce": uuid.uuid4().hex},
        "worker": {"script": program, "arguments": words[1:], "cwd": os.path.abspath(cwd or "."), "use_grpc": False},
    }
    metadata.update(options)
    return {
        "run_name": name or os.path.basename(words[-1] if len(words) > 1 else words[0]),
        "entry_point": program,
        "arguments": words[1:],
        "environment": {"PATH": os.environ.get("PATH", os.defpath), **(env or {})},
        "resources": {"gpus": {"requested": gpus, "mandatory": gpus > 0}},
        "artifacts": {},
        "metadata": metadata,
    }


class Table(list):
    """Rows as dicts, in order. The methods need the library that they name."""

    def to_pandas(self):
        import pandas

        return pandas.DataFrame(list(self._plain()))

    def to_polars(self):
        import polars

        return polars.DataFrame(list(self._plain()), infer_schema_length=None)

    def to_pyarrow(self):
        import pyarrow

        return pyarrow.Table.from_pylist(list(self._plain()))

    def _plain(self):
        return self

    def _repr_html_(self):
        rows = [dict(row) for row in self._plain()]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join("<th>%s</th>" % _html(name) for name in columns)
        body = "".join(
            "<tr>%s</tr>" % "".join("<td>%s</td>" % _html(row.get(name, "")) for name in columns) for row in rows[:50]
        )
        more = "" if len(rows) <= 50 else "<p>and %d more</p>" % (len(rows) - 50)
        return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>%s" % (head, body, more)


class Runs(Table):
    """Runs; as a table: a row for each, with its parameters."""

    def _plain(self):
        for run in self:
            row = {"id": run.id, "name": run.name, "state": run.state, "reward": run.reward}
            row.update(("param." + name, value) for name, value in run.parameters.items())
            yield row

    def wait(self, timeout=None):
        """Waits for all of them. Returns them as they are then. Raises TimeoutError."""
        end = None if timeout is None else time.monotonic() + timeout
        return Runs(run.wait(None if end is None else max(0.0, end - time.monotonic())) for run in self)


class Run:
    """A run as it was when it was read; `refresh()` reads it anew. `data` has all fields of the API."""

    def __init__(self, daemon, data, parameters=None, reward=None):
        self._daemon = daemon
        self.data = data
        self.parameters = parameters or {}
        self._reward = reward

    id = property(lambda self: self.data["runId"])
    name = property(lambda self: self.data.get("name", ""))
    state = property(lambda self: self.data["state"], doc="INIT, EXECUTING, TERMINATED, FAULTED, CANCELLED …")
    outcome = property(lambda self: self.data.get("outcome", ""), doc="succeeded, failed, canceled, pruned; empty while it is live")
    reason = property(lambda self: self.data.get("reason", ""))
    tags = property(lambda self: self.data.get("tags", []))
    directory = property(lambda self: self.data.get("directory", ""))

    @property
    def reward(self):
        """The number that `mosaic list` shows; None if there is none."""
        if self._reward is None:
            rows = self._daemon.runs(where="run_id=%s" % self.id, limit=1)
            self._reward = rows[0]._reward if rows else None
        return self._reward

    def metrics(self, name=None):
        """Every stored point of the metric, or of all: dicts with seq, name, step, value and more. NaN is None."""
        points = self._records("metrics")
        return Table(points if name is None else (point for point in points if point["name"] == name))

    def episodes(self):
        return Table(self._records("episodes"))

    def steps(self):
        return Table(self._records("steps"))

    def events(self):
        return Table(self._records("events"))

    def series(self):
        """Its metrics: dicts with name, points, last, min, max and mean."""
        rows = self._daemon.call("mosaic.v1.Mosaic/ListSeries", {"run": self.id}).get("series", [])
        figures = ("last", "min", "max", "mean")
        return Table(
            {"name": row["name"], "points": int(row.get("points", 0)), **{key: row.get(key) for key in figures}} for row in rows
        )

    def _records(self, kind):
        import base64

        for batch in self._daemon.stream("mosaic.v1.Mosaic/StreamTelemetry", {"run": self.id, "kind": kind}):
            for line in base64.b64decode(batch.get("jsonl", "")).splitlines():
                yield json.loads(line)

    def refresh(self):
        fresh = self._daemon.get_run(self.id)
        self.data, self.parameters, self._reward = fresh.data, fresh.parameters, None
        return self

    def wait(self, timeout=None):
        """Waits until the run has ended; returns it. Raises TimeoutError after that many seconds."""
        return _ended(self, lambda: self.refresh().outcome, timeout)

    def cancel(self):
        self.data = self._daemon.call("mosaic.v1.Mosaic/CancelRun", {"run": self.id})
        return self

    def retry(self):
        self.data = self._daemon.call("mosaic.v1.Mosaic/RetryRun", {"run": self.id})
        return self

    def __repr__(self):
        return "<Run %s %s %s>" % (self.id, self.name, self.reason and "%s: %s" % (self.state, self.reason) or self.state)

    def _repr_html_(self):
        facts = [("state", self.state if not self.reason else "%s: %s" % (self.state, self.reason)), ("id", self.id)]
        facts += [("hint", self.data["hint"])] if self.data.get("hint") else []
        facts += list(self.parameters.items())
        rows = "".join("<tr><th>%s</th><td>%s</td></tr>" % (_html(name), _html(value)) for name, value in facts)
        curves = "".join(self._curve(one["name"]) for one in self.series()[:4])
        return "<h4>%s</h4><table>%s</table>%s" % (_html(self.name), rows, curves)

    def _curve(self, name):
        request = {"run": self.id, "name": name, "buckets": 200}
        buckets = self._daemon.call("mosaic.v1.Mosaic/GetSeries", request).get("buckets", [])
        # The API leaves out what is 0, and says in words what is not finite.
        means = [(float(b.get("firstX", 0)), b.get("mean", 0)) for b in buckets]
        points = [(x, mean) for x, mean in means if isinstance(mean, (int, float))]
        if len(points) < 2:
            return ""
        low, high = min(y for _, y in points), max(y for _, y in points)
        first, last = points[0][0], points[-1][0]
        place = [
            "%.1f,%.1f" % (280 * (x - first) / (last - first or 1), 58 - 56 * (y - low) / (high - low or 1)) for x, y in points
        ]
        return (
            '<figure style="display:inline-block;margin:4px 12px 4px 0"><svg width="280" height="60"><polyline fill="none" '
            'stroke="#1a5fc4" stroke-width="1.5" points="%s"/></svg><figcaption>%s: %.4g to %.4g, last %.4g</figcaption></figure>'
            % (" ".join(place), _html(name), low, high, points[-1][1])
        )


def _html(value):
    import html

    if value is None:
        return ""
    return html.escape("%.6g" % value if isinstance(value, float) else str(value))


class Sweep:
    """A sweep as it was when it was read; `refresh()` reads it anew. `data` has all fields of the API."""

    def __init__(self, daemon, data):
        self._daemon = daemon
        self.data = data

    id = property(lambda self: self.data["sweepId"])
    name = property(lambda self: self.data["name"])
    state = property(lambda self: self.data["state"], doc="running, paused, cancelling, cancelled, finished")

    def runs(self, where="", sort="", limit=None):
        """The runs of its trials that are made, newest first."""
        return self._daemon.runs(where=where, tags=["sweep:" + self.name], sort=sort, limit=limit)

    def refresh(self):
        self.data = self._daemon.call("mosaic.v1.Mosaic/GetSweep", {"sweep": self.id})
        return self

    def wait(self, timeout=None):
        """Waits until all trials have ended; returns the sweep. Raises TimeoutError after that many seconds."""
        return _ended(self, lambda: self.refresh().state in ("finished", "cancelled"), timeout)

    def cancel(self):
        self.data = self._daemon.call("mosaic.v1.Mosaic/ChangeSweep", {"sweep": self.id, "action": "cancel"})
        return self

    def __repr__(self):
        return "<Sweep %s %s %s>" % (self.id, self.name, self.state)

    def _repr_html_(self):
        return self.runs()._repr_html_()


def _ended(what, is_over, timeout):
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.1
    while not is_over():
        if end is not None and time.monotonic() >= end:
            raise TimeoutError("%r has not ended" % what)
        time.sleep(pause if end is None else min(pause, max(0.0, end - time.monotonic())))
        pause = min(2.0, pause * 1.5)
    return what


def runs(where="", tags=(), name="", states=(), sort="", limit=None):
    """Runs of the daemon, newest first: runs(where="lr<1e-3 and seed=1", tags="study", sort="-reward").

    The filter is that of `mosaic list --where`. Unlike the functions that record, this one raises MosaicError.
    """
    return Daemon().runs(where, tags, name, states, sort, limit)


def get_run(run="@last"):
    """One run: by its id, the beginning of its id, its name, or "@last". Raises MosaicError."""
    return Daemon().get_run(run)


def submit(command=None, config=None, **options):
    """Submits a command (a list of words, or a line as for a shell) or a whole config; returns the run.

    Options for a command: name, tags, gpus, env (a dict), cwd, and fields of the config's metadata, such as
    restart={"max_attempts": 3}. Raises MosaicError.
    """
    return Daemon().submit(command, config, **options)


def sweep(command, name, **options):
    """Tries a command with many values of its parameters; returns the sweep. "{NAME}" in the command is a value; a
    parameter that it does not name is added as "--NAME=value".

    Options: grid (a dict of lists: every combination), points (a list of dicts), seeds (a number, or a list), metric such as
    "eval/reward:max", max_parallel, and those of submit. Raises MosaicError.
    """
    return Daemon().sweep(command, name, **options)


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
