/**
 * grpc.reflection.v1 (and v1alpha, whose messages are the same), from the descriptors in the
 * generated code.
 */
import {
  createRegistry,
  type DescFile,
  type DescService,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import type {
  ServerReflection,
  ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import type { Handlers } from "../call/handlers.ts";

type EncodeFile = (file: DescFile) => Uint8Array;

type Response = Exclude<
  MessageInitShape<typeof ServerReflectionResponseSchema>,
  { $typeName: string }
>;
type Answer = Response["messageResponse"];

/** The files and all files that they import; each comes before its imports. */
function withImports(files: readonly DescFile[]): Set<DescFile> {
  const found = new Set(files);
  for (const { dependencies } of found) for (const file of dependencies) found.add(file);
  return found;
}

/** The services of a server, and their files. */
export class Descriptors {
  readonly #services: string[];
  readonly #files: Map<string, DescFile>;
  readonly #types: ReturnType<typeof createRegistry>;

  constructor(services: readonly DescService[]) {
    this.#services = services.map((service) => service.typeName).sort();
    const files = [...withImports(services.map(({ file }) => file))];
    this.#files = new Map(files.map((file) => [file.proto.name, file]));
    this.#types = createRegistry(...files);
  }

  answer(request: ServerReflectionRequest["messageRequest"], encode: EncodeFile): Answer {
    switch (request.case) {
      case "listServices":
        return {
          case: "listServicesResponse",
          value: { service: this.#services.map((name) => ({ name })) },
        };
      case "fileByFilename":
        return filesOf(this.#files.get(request.value), `file "${request.value}"`, encode);
      case "fileContainingSymbol":
        return filesOf(this.#fileOf(request.value), `symbol "${request.value}"`, encode);
      case "fileContainingExtension":
        return failure(
          status.NOT_FOUND,
          `"${request.value.containingType}" has no extensions here`,
        );
      case "allExtensionNumbersOfType":
        return this.#fileOf(request.value) === undefined
          ? failure(status.NOT_FOUND, `there is no type "${request.value}" here`)
          : {
            case: "allExtensionNumbersResponse",
            value: { baseTypeName: request.value, extensionNumber: [] },
          };
      case undefined:
        return failure(status.INVALID_ARGUMENT, "the request asks for nothing");
    }
  }

  /** @param symbol a type, or a method or field of one */
  #fileOf(symbol: string): DescFile | undefined {
    const type = this.#types.get(symbol);
    if (type !== undefined) return type.file;
    const dot = symbol.lastIndexOf(".");
    const parent = this.#types.get(symbol.slice(0, dot));
    const members = parent?.kind === "message"
      ? parent.fields
      : parent?.kind === "service"
      ? parent.methods
      : [];
    return members.some(({ name }) => name === symbol.slice(dot + 1)) ? parent!.file : undefined;
  }
}

/** The file with all its imports, without which a client cannot use it. */
function filesOf(file: DescFile | undefined, what: string, encode: EncodeFile): Answer {
  if (file === undefined) return failure(status.NOT_FOUND, `there is no ${what} here`);
  return {
    case: "fileDescriptorResponse",
    value: { fileDescriptorProto: [...withImports([file])].map(encode) },
  };
}

function failure(errorCode: status, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}

export function reflectionHandlers(descriptors: Descriptors): Handlers<typeof ServerReflection> {
  return {
    async serverReflectionInfo(incoming, out) {
      const { FileDescriptorProtoSchema, toBinary } = await import("../call/well_known.ts");
      const encode: EncodeFile = ({ proto }) => toBinary(FileDescriptorProtoSchema, proto);
      for (
        let requests = await incoming.take();
        requests.length > 0;
        requests = await incoming.take()
      ) {
        for (const request of requests) {
          const messageResponse = descriptors.answer(request.messageRequest, encode);
          await out.send({ validHost: request.host, originalRequest: request, messageResponse });
        }
      }
    },
  };
}
