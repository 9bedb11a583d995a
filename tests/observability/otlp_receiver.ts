/**
 * A receiver of OTLP, as a collector is one: over HTTP in both encodings, or gRPC; tells what it
 * got in one form.
 */
import { Buffer } from "node:buffer";
import { type sendUnaryData, Server, ServerCredentials, type ServerUnaryCall } from "@grpc/grpc-js";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
}

export interface ReceivedMetric {
  name: string;
  unit: string;
  type: "gauge" | "sum" | "histogram";
  /** Of each point: its attributes as "key=value …", and its value (of a histogram its count). */
  points: { attributes: string; value: number; boundaries: number[] }[];
}

export interface OtlpReceiver extends AsyncDisposable {
  url: string;
  spans: ReceivedSpan[];
  /** The newest export of each metric. */
  metrics: Map<string, ReceivedMetric>;
  contentTypes: Set<string>;
  serviceNames: Set<string>;
}

/** Takes OTLP over HTTP, in both encodings. */
export function otlpReceiver(): OtlpReceiver {
  const { got, take } = gathering();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const type = request.headers.get("content-type") ?? "";
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (pathname !== "/v1/traces" && pathname !== "/v1/metrics") {
      return new Response(null, { status: 404 });
    }
    const shape = pathname === "/v1/traces" ? TRACES : METRICS;
    take(
      `${pathname} ${type}`,
      type === "application/json"
        ? JSON.parse(new TextDecoder().decode(bytes))
        : decode(bytes, shape),
    );
    return type === "application/json"
      ? Response.json({})
      : new Response(new Uint8Array(), { headers: { "content-type": "application/x-protobuf" } });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    ...got,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Takes OTLP over gRPC. */
export async function otlpGrpcReceiver(): Promise<OtlpReceiver> {
  const { got, take } = gathering();
  const server = new Server();
  for (const [kind, shape] of [["Trace", TRACES], ["Metrics", METRICS]] as const) {
    const path = `/opentelemetry.proto.collector.${kind.toLowerCase()}.v1.${kind}Service/Export`;
    server.addService({
      export: {
        path,
        requestStream: false,
        responseStream: false,
        requestSerialize: (bytes: Buffer) => bytes,
        requestDeserialize: (bytes: Buffer) => bytes,
        responseSerialize: (bytes: Buffer) => bytes,
        responseDeserialize: (bytes: Buffer) => bytes,
      },
    }, {
      export: (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) => {
        take(`${path.split("/")[1]} grpc`, decode(call.request, shape));
        answer(null, Buffer.alloc(0));
      },
    });
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(
      "127.0.0.1:0",
      ServerCredentials.createInsecure(),
      (error, port) => error ? reject(error) : resolve(port),
    );
  });
  return {
    url: `http://127.0.0.1:${port}`,
    ...got,
    [Symbol.asyncDispose]: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}

/** What was received, and how something more is. */
function gathering() {
  const got = {
    spans: [] as ReceivedSpan[],
    metrics: new Map<string, ReceivedMetric>(),
    contentTypes: new Set<string>(),
    serviceNames: new Set<string>(),
  };
  const take = (contentType: string, body: Any) => {
    got.contentTypes.add(contentType);
    for (const resource of body.resourceSpans ?? body.resourceMetrics ?? []) {
      for (const { key, value } of resource.resource.attributes) {
        if (key === "service.name") got.serviceNames.add(value.stringValue);
      }
      for (const scope of resource.scopeSpans ?? []) got.spans.push(...scope.spans.map(spanOf));
      for (const scope of resource.scopeMetrics ?? []) {
        for (const metric of scope.metrics.map(metricOf)) got.metrics.set(metric.name, metric);
      }
    }
  };
  return { got, take };
}

// deno-lint-ignore no-explicit-any -- what a stranger sent
type Any = any;

function spanOf({ traceId, spanId, parentSpanId = "", name }: Any): ReceivedSpan {
  return { traceId, spanId, parentSpanId, name };
}

function metricOf(metric: Any): ReceivedMetric {
  const type = (["gauge", "sum", "histogram"] as const).find((t) => metric[t] !== undefined)!;
  const points = (metric[type].dataPoints ?? []).map((point: Any) => ({
    attributes: (point.attributes ?? []).map(({ key, value }: Any) => `${key}=${value.stringValue}`)
      .join(" "),
    value: Number(type === "histogram" ? point.count : point.asDouble ?? point.asInt),
    boundaries: point.explicitBounds ?? [],
  }));
  return { name: metric.name, unit: metric.unit ?? "", type, points };
}

/** Fields of the messages that are looked at, by number: the name, and what it is. */
interface Shape {
  [field: number]: [
    name: string,
    kind: "text" | "hex" | "double" | "fixed64" | "doubles" | { one: Shape } | { many: Shape },
  ];
}

const ATTRIBUTE: Shape = {
  1: ["key", "text"],
  2: ["value", { one: { 1: ["stringValue", "text"] } }],
};
const RESOURCE: Shape = { 1: ["attributes", { many: ATTRIBUTE }] };
const SPAN: Shape = {
  1: ["traceId", "hex"],
  2: ["spanId", "hex"],
  4: ["parentSpanId", "hex"],
  5: ["name", "text"],
};
const TRACES: Shape = {
  1: ["resourceSpans", {
    many: {
      1: ["resource", { one: RESOURCE }],
      2: ["scopeSpans", { many: { 2: ["spans", { many: SPAN }] } }],
    },
  }],
};
const NUMBER_POINT: Shape = {
  4: ["asDouble", "double"],
  6: ["asInt", "fixed64"],
  7: ["attributes", { many: ATTRIBUTE }],
};
const HISTOGRAM_POINT: Shape = {
  4: ["count", "fixed64"],
  7: ["explicitBounds", "doubles"],
  9: ["attributes", { many: ATTRIBUTE }],
};
const METRIC: Shape = {
  1: ["name", "text"],
  3: ["unit", "text"],
  5: ["gauge", { one: { 1: ["dataPoints", { many: NUMBER_POINT }] } }],
  7: ["sum", { one: { 1: ["dataPoints", { many: NUMBER_POINT }] } }],
  9: ["histogram", { one: { 1: ["dataPoints", { many: HISTOGRAM_POINT }] } }],
};
const METRICS: Shape = {
  1: ["resourceMetrics", {
    many: {
      1: ["resource", { one: RESOURCE }],
      2: ["scopeMetrics", { many: { 2: ["metrics", { many: METRIC }] } }],
    },
  }],
};

function decode(bytes: Uint8Array, shape: Shape): Any {
  const reader = new BinaryReader(bytes);
  const message: Any = {};
  for (const [name, kind] of Object.values(shape)) {
    if (typeof kind === "object" && "many" in kind) message[name] = [];
  }
  while (reader.pos < reader.len) {
    const [number, wire] = reader.tag();
    const field = shape[number];
    if (field === undefined) {
      reader.skip(wire, number);
      continue;
    }
    const [name, kind] = field;
    if (kind === "text") message[name] = reader.string();
    else if (kind === "hex") {
      message[name] = [...reader.bytes()].map((b) => b.toString(16).padStart(2, "0")).join("");
    } else if (kind === "double") message[name] = reader.double();
    else if (kind === "fixed64") message[name] = Number(reader.fixed64());
    else if (kind === "doubles") message[name] = doublesOf(reader, wire);
    else if ("one" in kind) message[name] = decode(reader.bytes(), kind.one);
    else message[name].push(decode(reader.bytes(), kind.many));
  }
  return message;
}

function doublesOf(reader: BinaryReader, wire: WireType): number[] {
  if (wire === WireType.Bit64) return [reader.double()];
  const packed = reader.bytes();
  const values = new BinaryReader(packed);
  return Array.from({ length: packed.length / 8 }, () => values.double());
}
