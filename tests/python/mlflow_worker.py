"""What a program with `import mlflow` sends: the requests of MLflow's client, tried again as the client does."""
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URI = os.environ["MLFLOW_TRACKING_URI"]
TOKEN = os.environ.get("MLFLOW_TRACKING_TOKEN")


def call(method, path, uri=URI, token=TOKEN, **fields):
    url = "%s/api/2.0/mlflow/%s" % (uri, path)
    body = None
    if method == "GET":
        url += "?" + urllib.parse.urlencode(fields)
    else:
        body = json.dumps(fields).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (408, 429, 500, 502, 503, 504):
                return dict(json.load(error), status=error.code)
        except urllib.error.URLError:
            pass
        time.sleep(0.05)


def metric(key, value, step, timestamp):
    return {"key": key, "value": value, "step": step, "timestamp": timestamp}


said = {"absent": call("GET", "experiments/get-by-name", experiment_name="CartPole ü")}
experiment = call("POST", "experiments/create", name="CartPole ü")["experiment_id"]
said["there"] = call("GET", "experiments/get-by-name", experiment_name="CartPole ü")["experiment"]["name"]
create = dict(experiment_id=experiment, user_id="u", start_time=1700000000000, tags=[{"key": "a", "value": "b"}])
run = call("POST", "runs/create", **create)["run"]["info"]["run_id"]
said["created again"] = call("POST", "runs/create", **create)["run"]["info"]["run_id"] == run
call("POST", "runs/log-batch", run_id=run, params=[{"key": "lr", "value": "0.0003"}, {"key": "env", "value": "CartPole-v1"}])
secrets = {"api_key": "hunter-1", "db": "postgres://me:hunter-2@host/db"}
call("POST", "runs/log-batch", run_id=run, params=[{"key": k, "value": v} for k, v in secrets.items()],
     tags=[{"key": "password", "value": "hunter-3"}])
said["changed"] = call("POST", "runs/log-parameter", run_id=run, key="lr", value="1")
points = [metric("loss", 0.1 + 0.2 + i / 7, i, 1700000000000 + i) for i in range(1000)]
call("POST", "runs/log-batch", run_id=run, metrics=points)
open("ready", "w").close()  # The daemon is killed now, and points come while it is not there.
while not os.path.exists("go"):
    time.sleep(0.01)
call("POST", "runs/log-batch", run_id=run, metrics=points)  # As a client does that got no answer.
for i in range(20):
    call("POST", "runs/log-metric", run_id=run, run_uuid=run, **metric("reward", 1e-300 * i, i, 1700000001000))
call("POST", "runs/log-metric", run_id=run, **metric("loss", "NaN", 1000, 1700000002000))
call("POST", "runs/set-tag", run_id=run, key="mlflow.note", value="n")
nested = call("POST", "runs/create", experiment_id=experiment, start_time=1700000003000, run_name="child", tags=[])
child = nested["run"]["info"]["run_id"]
call("POST", "runs/log-metric", run_id=child, **metric("loss", 7, 0, 1700000003000))
model = call("POST", "logged-models", experiment_id=experiment, name="m", source_run_id=run)["model"]["info"]
call("PATCH", "logged-models/" + model["model_id"], status="LOGGED_MODEL_READY")
said["model"] = call("GET", "logged-models/" + model["model_id"])["model"]["info"]["status"]
call("POST", "runs/update", run_id=run, status="FINISHED", end_time=1700000004000)

def parameters(i):  # 3 MiB, each text within its own bound.
    return [dict(key="big%d.%d" % (i, j), value=str(i) * (63 << 10)) for j in range(50)]


big = [call("POST", "runs/log-batch", run_id=child, params=parameters(i)) for i in range(3)]
said["big"] = [b.get("error_code") for b in big]
said["huge"] = call("POST", "runs/set-tag", run_id=child, key="huge", value="x" * (5 << 20)).get("status")
stayed = call("GET", "runs/get", run_id=child)["run"]["data"]["params"]
said["big stayed"] = sorted({p["key"].split(".")[0] for p in stayed})
got = call("GET", "runs/get", run_id=run, run_uuid=run)["run"]
artifacts = urllib.parse.unquote(urllib.parse.urlparse(got["info"]["artifact_uri"]).path)
os.makedirs(artifacts)
open(artifacts + "/model.txt", "w").close()
said["run"] = {name: got["info"][name] for name in ("status", "end_time", "user_id", "experiment_id")}
said["params"] = got["data"]["params"]
said["latest"] = sorted((m["key"], m["value"], m["step"]) for m in got["data"]["metrics"])
history = call("GET", "metrics/get-history", run_id=run, metric_key="loss")["metrics"]
said["history"] = history[:-1] == points and (history[-1]["value"], history[-1]["step"]) == ("NaN", 1000)
said["runs"] = [r["info"]["run_name"] for r in call("POST", "runs/search", experiment_ids=[experiment])["runs"]]
said["child"] = [(m["key"], m["value"]) for m in call("GET", "runs/get", run_id=child)["run"]["data"]["metrics"]]
call("POST", "runs/update", run_id=child, status="FAILED", end_time=1700000005000)
call("POST", "runs/log-metric", run_id=child, **metric("loss", 7, 0, 1700000003000))  # As a client repeats it.
said["unknown"] = call("POST", "traces/create", name="x")["error_code"]
call("POST", "registered-models/create", name="x")
versions = [call("POST", "model-versions/create", name="x", source="s")["model_version"] for _ in range(2)]
said["registered"] = [(version["version"], version["status"]) for version in versions]
said["not registered"] = call("GET", "registered-models/get", name="y")["error_code"]
said["without token"] = call("GET", "runs/get", token="", run_id=run).get("status")
said["other run"] = call("GET", "runs/get", uri=URI[:-26] + "01ARZ3NDEKTSV4RRFFQ69G5FAV", run_id=run).get("status")
json.dump(said, open("said.json", "w"))
