/** grpc.reflection.v1 (and v1alpha, with the same messages), from the descriptors of the generated code. */
import { create, type DescFile, type DescMessage, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { status } from "@grpc/grpc-js";
import {
  type ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import type { Handlers } from "../handlers.ts";

type Answer = ServerReflectionResponse["messageResponse"];

/** What a server offers, indexed once. */
export class Descriptors {
  readonly services: string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();

  constructor(services: readonly DescService[]) {
    this.services = services.map((service) => service.typeName).sort();
    for (const service of services) this.#add(service.file);
  }

  #add(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const service of file.services) {
      this.#symbols.set(service.typeName, file);
      for (const method of service.methods) this.#symbols.set(`${service.typeName}.${method.name}`, file);
    }
    for (const e of file.enums) this.#symbols.set(e.typeName, file);
    for (const message of file.messages) this.#addMessage(message, file);
    for (const dependency of file.dependencies) this.#add(dependency);
  }

  #addMessage(message: DescMessage, file: DescFile): void {
    this.#symbols.set(message.typeName, file);
    for (const field of message.fields) this.#symbols.set(`${message.typeName}.${field.name}`, file);
    for (const e of message.nestedEnums) this.#symbols.set(e.typeName, file);
    for (const nested of message.nestedMessages) this.#addMessage(nested, file);
  }

  answer(request: ServerReflectionRequest["messageRequest"]): Answer {
    switch (request.case) {
      case "listServices":
        return listOf(this.services);
      case "fileByFilename":
        return this.#fileAnswer(this.#files.get(request.value), `file "${request.value}"`);
      case "fileContainingSymbol":
        return this.#fileAnswer(this.#symbols.get(request.value), `symbol "${request.value}"`);
      case "fileContainingExtension":
        return failure(status.NOT_FOUND, `"${request.value.containingType}" has no extensions here`);
      case "allExtensionNumbersOfType":
        return this.#symbols.has(request.value)
          ? {
            case: "allExtensionNumbersResponse",
            value: {
              $typeName: "grpc.reflection.v1.ExtensionNumberResponse",
              baseTypeName: request.value,
              extensionNumber: [],
            },
          }
          : failure(status.NOT_FOUND, `there is no type "${request.value}" here`);
      case undefined:
        return failure(status.INVALID_ARGUMENT, "the request asks for nothing");
    }
  }

  /** The file and everything that it imports: a client needs all of them. */
  #fileAnswer(file: DescFile | undefined, what: string): Answer {
    if (file === undefined) return failure(status.NOT_FOUND, `there is no ${what} here`);
    const files = new Set<DescFile>();
    const add = (f: DescFile) => {
      if (files.has(f)) return;
      files.add(f);
      f.dependencies.forEach(add);
    };
    add(file);
    return {
      case: "fileDescriptorResponse",
      value: {
        $typeName: "grpc.reflection.v1.FileDescriptorResponse",
        fileDescriptorProto: [...files].map((f) => toBinary(FileDescriptorProtoSchema, f.proto)),
      },
    };
  }
}

function listOf(services: readonly string[]): Answer {
  return {
    case: "listServicesResponse",
    value: {
      $typeName: "grpc.reflection.v1.ListServiceResponse",
      service: services.map((name) => ({ $typeName: "grpc.reflection.v1.ServiceResponse", name })),
    },
  };
}

function failure(code: status, message: string): Answer {
  return {
    case: "errorResponse",
    value: { $typeName: "grpc.reflection.v1.ErrorResponse", errorCode: code, errorMessage: message },
  };
}

export function reflectionHandlers(descriptors: Descriptors): Handlers<typeof ServerReflection> {
  return {
    async serverReflectionInfo(incoming, out) {
      for (;;) {
        const requests = await incoming.take();
        if (requests.length === 0) return;
        for (const request of requests) {
          await out.send(create(ServerReflectionResponseSchema, {
            validHost: request.host,
            originalRequest: request,
            messageResponse: descriptors.answer(request.messageRequest),
          }));
        }
      }
    },
  };
}
