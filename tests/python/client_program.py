"""Uses the client of the module `mosaic` as a notebook would; prints what it got as JSON."""
import json
import os
import sys
import types

import mosaic

PROGRAM = """
import sys
for step in range(1, 6):
    print("step=%d loss=%s" % (step, float(sys.argv[-1]) / step), flush=True)
sys.exit(int(sys.argv[-1]) == 3)
"""

with open("train.py", "w") as file:
    file.write(PROGRAM)

submitted = [
    mosaic.submit([sys.executable, "train.py", "--lr", str(lr)], name="lr-%d" % lr, tags=["study"], env={"A": "b"})
    for lr in (1, 2, 3)
]
ended = mosaic.Runs(submitted).wait(60)
tried = mosaic.sweep("%s train.py {seed} {lr}" % sys.executable, "tried", grid={"lr": [4, 5]}, seeds=2, metric="loss:min").wait(60)
best = mosaic.runs(where="lr<3", tags="study", sort="-metric.loss", limit=1)[0]



def frames():
    """What the two libraries are given, which need not be installed for this."""
    known = {library: sys.modules.get(library) for library in ("pandas", "polars")}
    sys.modules.update({
        library: types.SimpleNamespace(DataFrame=lambda rows, **options: [rows, sorted(options)]) for library in known
    })
    try:
        return [best.series().to_pandas(), len(best.metrics().to_polars()[0])]
    finally:
        for library, module in known.items():
            if module is None:
                del sys.modules[library]
            else:
                sys.modules[library] = module


class Zeros:
    """A daemon whose series is 0 once: its JSON has no such value."""

    def call(self, method, request):
        return {"buckets": [{}, {"firstX": "1", "mean": 2.0}, {"firstX": "2", "mean": "NaN"}]}


def refusal(call):
    try:
        call()
    except mosaic.MosaicError as error:
        return [error.code, str(error)]


print(json.dumps({
    "outcomes": {run.name: [run.state, run.outcome, run.reason] for run in ended},
    "names": sorted(run.name for run in mosaic.runs(where="lr>=2", tags="study")),
    "sweep": [
        tried.state,
        sorted([run.parameters["lr"], run.parameters["seed"], run.outcome] for run in tried.runs()),
        tried._repr_html_().count("<tr>"),
        refusal(lambda: mosaic.sweep(["true"], "tried", grid={"lr": [1]})),
    ],
    "pages": len(mosaic.runs(limit=2)),
    "best": [best.name, best.parameters, best.data["name"]],
    "points": [[p["step"], p["value"]] for p in best.metrics("loss")],
    "none": best.metrics("nothing"),
    "series": best.series(),
    "columns": best.metrics().to_pyarrow().column_names,
    "table": mosaic.runs(where="lr<3").to_pyarrow().num_rows,
    "frames": frames(),
    "events": [event["event"] for event in best.events()][:1],
    "html": [best._repr_html_().count("<polyline"), "&lt;b&gt;" in mosaic.Table([{"x": "<b>"}])._repr_html_()],
    "zeros": mosaic.Run(Zeros(), {"runId": "x"})._curve("<i>").split("<figcaption>")[1],
    "unknown": refusal(lambda: mosaic.get_run("nothing")),
    "filter": refusal(lambda: mosaic.runs(where="lr<<")),
    "config": refusal(lambda: mosaic.submit(config={"run_name": "x"})),
    "both": refusal(lambda: mosaic.submit("true", config={})),
    "away": refusal(lambda: mosaic.Daemon(target="127.0.0.1:1").runs()),
    "address": refusal(lambda: mosaic.Daemon(target="nowhere").runs()),
    "token": refusal(lambda: mosaic.Daemon(target="10.0.0.1:8055", token="t").runs()),
    "http": len(mosaic.Daemon(target=os.environ["HTTP_TARGET"]).runs(tags="study")),
}))
