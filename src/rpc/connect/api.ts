/** The API on the page's server: Connect's protocol and gRPC-Web, which need no HTTP trailers. */
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import { methodPath } from "../../wire/method_path.ts";
import type { CallContext, Peer } from "../calls.ts";
import { type AnyHandler, handlerOf, type Handlers } from "../handlers.ts";
import { refusal } from "./errors.ts";
import { streamForm, unaryForm, webForm } from "./forms.ts";
import { answerUnary } from "./unary.ts";
import { answerStream, type StreamOptions } from "./streams.ts";

const STALL_MS = 60_000;

interface Route {
  method: DescMethod;
  handler: AnyHandler;
}

export class Api {
  readonly #context: CallContext;
  readonly #options: StreamOptions;
  readonly #routes = new Map<string, Route>();
  /** `/package.Service/` of each. */
  readonly #services = new Set<string>();

  constructor(context: CallContext, options: Partial<StreamOptions> = {}) {
    this.#context = context;
    this.#options = { stallMs: STALL_MS, ...options };
  }

  add<S extends DescService>(service: S, handlers: Handlers<S>): this {
    for (const method of service.methods) {
      this.#routes.set(methodPath(method), { method, handler: handlerOf(handlers, method.localName) });
    }
    this.#services.add(`/${service.typeName}/`);
    return this;
  }

  /** Whether the path belongs to one of its services, even if the method does not exist. */
  has(path: string): boolean {
    return this.#services.has(path.slice(0, path.lastIndexOf("/") + 1));
  }

  answer(path: string, request: Request, peer: Peer): Response | Promise<Response> {
    const route = this.#routes.get(path);
    if (route === undefined) return refusal(noMethod(path));
    const { method, handler } = route;
    if (request.method !== "POST") return refusal(wrongVerb(method, request.method), 405);
    const type = request.headers.get("content-type") ?? "";
    const enveloped = (method.methodKind === "unary" ? undefined : streamForm(type)) ?? webForm(type);
    if (enveloped !== undefined) {
      return answerStream(this.#context, method, handler, request, peer, enveloped, this.#options);
    }
    const form = method.methodKind === "unary" ? unaryForm(type) : undefined;
    if (form === undefined) return refusal(wrongType(method, type), 415);
    return answerUnary(this.#context, method, handler, request, peer, form, this.#options);
  }
}

/** The answer to a client of a later version. */
function noMethod(path: string): MosaicError {
  return new MosaicError("unimplemented", `this daemon has no method ${path.slice(1)}`, {
    hint: "Is the client of a later version? Upgrade the daemon, or use a client of the daemon's version.",
  });
}

function wrongVerb({ name }: DescMethod, verb: string): MosaicError {
  return new MosaicError("invalid_argument", `the HTTP method is ${verb}: ${name} is called by POST`);
}

function wrongType({ name, methodKind }: DescMethod, type: string): MosaicError {
  const form = methodKind === "unary" ? "application/" : "application/connect+";
  return new MosaicError(
    "invalid_argument",
    `content-type is "${type}": ${name} takes ${form}json and ${form}proto, and application/grpc-web+proto`,
    /^application\/grpc(\+|;|$)/.test(type) ? { hint: "gRPC itself is served at the address of --listen." } : {},
  );
}
