/** The API on the page's server: Connect's protocol, and gRPC-Web, which need no trailers of HTTP. */
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { methodPath } from "../../wire/method_path.ts";
import type { CallContext, Peer } from "../calls.ts";
import { type AnyHandler, handlerOf, type Handlers } from "../handlers.ts";
import { Router } from "./router.ts";
import { answerUnary, isPlain } from "./unary.ts";
import { STREAM_TYPE } from "../../wire/connect.ts";
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
  readonly #router: Router;

  constructor(context: CallContext, options: Partial<StreamOptions> = {}) {
    this.#context = context;
    this.#options = { stallMs: STALL_MS, ...options };
    this.#router = new Router(context, this.#options);
  }

  add<S extends DescService>(service: S, handlers: Handlers<S>): this {
    for (const method of service.methods) {
      this.#routes.set(methodPath(method), { method, handler: handlerOf(handlers, method.localName) });
    }
    this.#router.add(service, handlers);
    return this;
  }

  /** Whether the path is a method's. */
  has(path: string): boolean {
    return this.#routes.has(path);
  }

  answer(path: string, request: Request, peer: Peer): Response | Promise<Response> {
    const { method, handler } = this.#routes.get(path)!;
    const type = request.headers.get("content-type");
    if (method.methodKind !== "unary" && type === STREAM_TYPE && request.method === "POST") {
      return answerStream(this.#context, method, handler, request, peer, this.#options);
    }
    if (method.methodKind === "unary" && isPlain(request)) {
      return answerUnary(this.#context, method, handler, request, peer, this.#options);
    }
    return this.#router.answer(method, request, peer);
  }
}
