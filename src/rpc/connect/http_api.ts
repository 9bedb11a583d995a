/** The API on the page's server: Connect's protocol and gRPC-Web, which need no HTTP trailers. */
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { TrainerService } from "../../gen/gymgui/trainer_pb.ts";
import { methodPath } from "../../wire/method_path.ts";
import type { CallContext } from "../call/calls.ts";
import type { Peer } from "../call/peer.ts";
import { type AnyHandler, handlerOf, type Handlers } from "../call/handlers.ts";
import { refusal } from "./errors.ts";
import { type Coding, jsonCoding, streamForm, unaryForm, webForm } from "./forms.ts";
import { answerUnary } from "./unary.ts";
import { answerStream, type StreamOptions } from "./streams.ts";

const STALL_MS = 60_000;
const GRPC_ONLY = /^grpc\.(health|reflection)\./;

interface Route {
  method: DescMethod;
  handler: AnyHandler;
}

export class HttpApi {
  readonly #context: CallContext;
  readonly #options: StreamOptions;
  readonly #routes = new Map<string, Route>();
  readonly #services = new Set<string>();

  constructor(context: CallContext, options: Partial<StreamOptions> = {}) {
    this.#context = context;
    this.#options = { stallMs: STALL_MS, ...options };
  }

  add<S extends DescService>(service: S, handlers: Handlers<S>): this {
    for (const method of service.methods) {
      this.#routes.set(methodPath(method), {
        method,
        handler: handlerOf(handlers, method.localName),
      });
    }
    this.#services.add(service.typeName);
    return this;
  }

  answer(path: string, request: Request, peer: Peer): Response | Promise<Response> {
    const route = this.#routes.get(path);
    if (route === undefined) return refusal(this.#unknown(path));
    const { method, handler } = route;
    if (request.method !== "POST") {
      return refusal(wrongVerb(method, request.method), 405, { allow: "POST" });
    }
    const type = request.headers.get("content-type") ?? "";
    const enveloped = (method.methodKind === "unary" ? undefined : streamForm(type)) ??
      webForm(type);
    const form = enveloped ?? (method.methodKind === "unary" ? unaryForm(type) : undefined);
    if (form === undefined) return refusal(wrongType(method, type), 415);
    const call = { context: this.#context, method, handler, request, peer, ...this.#options };
    const answer = (coding: Coding) =>
      enveloped === undefined
        ? answerUnary(call, form.type, coding)
        : answerStream(call, enveloped, coding);
    return form.coding === undefined ? jsonCoding().then(answer) : answer(form.coding);
  }

  #unknown(path: string): MosaicError {
    const [service, name] = path.slice(1).split("/") as [string, string];
    const what = this.#services.has(service)
      ? `method ${service}/${name}`
      : `service ${service} at this address`;
    return new MosaicError("unimplemented", `this daemon has no ${what}`, {
      hint: GRPC_ONLY.test(service)
        ? "Health checks and reflection are served over gRPC, at the address of --listen."
        : "Is the client of a later version? Upgrade the daemon, or use a client of the daemon's version.",
    });
  }
}

/**
 * Whether the path is `/package.Service/Method`, of whatever service. The page has no such paths.
 */
export function isCallPath(path: string): boolean {
  return /^\/\w+(\.\w+)+\/\w+$/.test(path);
}

function wrongVerb({ name }: DescMethod, verb: string): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `the HTTP method is ${verb}: ${name} is called by POST`,
  );
}

function wrongType({ name, methodKind, parent }: DescMethod, type: string): MosaicError {
  const form = methodKind === "unary" ? "application/" : "application/connect+";
  const what =
    `content-type is "${type}": ${name} takes ${form}json and ${form}proto, and application/grpc-web+proto`;
  if (!/^application\/grpc(\+|;|$)/.test(type)) return new MosaicError("invalid_argument", what);
  const hint = parent === TrainerService
    ? "gRPC itself is served at the address of --listen."
    : `${parent.typeName} is not served over gRPC itself: let the client use Connect or gRPC-Web.`;
  return new MosaicError("invalid_argument", what, { hint });
}
