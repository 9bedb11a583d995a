/**
 * Replaces the base64 descriptors in generated protobuf code by shapes (src/base/proto_file.ts).
 */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  type MethodDescriptorProto,
} from "@bufbuild/protobuf/wkt";
import {
  type EnumShape,
  type FieldShape,
  fileProto,
  type FileShape,
  type MessageShape,
  type MethodShape,
} from "../../src/base/proto_file.ts";

const DESCRIPTOR = /fileDesc\("([^"]+)"(, \[[^\]]*\])?\)/;
const IMPORT =
  /import \{ (.*), fileDesc, (.*) \} from "@bufbuild\/protobuf\/codegenv2";|import \{ fileDesc, (.*) \} from "@bufbuild\/protobuf\/codegenv2";/;
const TIMESTAMP = /import \{ file_google_protobuf_timestamp \} from "@bufbuild\/protobuf\/wkt";\n/;

/** @param base path from the file to src/base */
export function withShapes(text: string, base: string): string {
  const [, binary = ""] = DESCRIPTOR.exec(text) ?? [];
  const proto = fromBinary(
    FileDescriptorProtoSchema,
    Uint8Array.fromBase64(binary, { lastChunkHandling: "loose" }),
  );
  const shape = fileShape(proto);
  requireSame(proto, shape);
  const names = ["fileOf", ...(TIMESTAMP.test(text) ? ["file_google_protobuf_timestamp"] : [])];
  return text
    .replace(DESCRIPTOR, (_, __, imports = "") => `fileOf(${JSON.stringify(shape)}${imports})`)
    .replace(TIMESTAMP, "")
    .replace(
      IMPORT,
      (_, before, after, only) =>
        `import { ${
          before === undefined ? only : `${before}, ${after}`
        } } from "@bufbuild/protobuf/codegenv2";\n` +
        `import { ${names.join(", ")} } from "${base}/proto_file.ts";`,
    );
}

/** @throws Error if the file has options or definitions that shapes do not express */
function requireSame(proto: FileDescriptorProto, shape: FileShape): void {
  const made = fileProto(shape, []);
  const plain = (message: DescriptorProto): void => {
    for (const field of message.field) field.jsonName = "";
    // Only the compiler uses reserved numbers.
    message.reservedRange = [];
    message.nestedType.forEach(plain);
  };
  for (const one of [proto, made]) one.messageType.forEach(plain);
  const [want, have] = [proto, made].map((one) =>
    toBinary(FileDescriptorProtoSchema, one).toBase64()
  );
  if (want !== have) {
    throw new Error(
      `${proto.name} uses a part of protobuf that the shapes of src/base/proto_file.ts do not express: add it there`,
    );
  }
}

function fileShape(
  { name, package: of, messageType, enumType, service }: FileDescriptorProto,
): FileShape {
  return {
    name,
    package: of,
    messages: messageType.map(messageShape),
    ...(enumType.length > 0 && { enums: enumType.map(enumShape) }),
    ...(service.length > 0 &&
      { services: service.map(({ name, method }) => [name, method.map(methodShape)]) }),
  };
}

function messageShape(
  { name, field, oneofDecl, nestedType, enumType, options }: DescriptorProto,
): MessageShape {
  return {
    name,
    ...(field.length > 0 && { fields: field.map(fieldShape) }),
    ...(oneofDecl.length > 0 && { oneofs: oneofDecl.map(({ name }) => name) }),
    ...(nestedType.length > 0 && { nested: nestedType.map(messageShape) }),
    ...(enumType.length > 0 && { enums: enumType.map(enumShape) }),
    ...(options?.mapEntry && { mapEntry: true }),
  };
}

/** Trailing values that are the default are omitted. */
function fieldShape(field: FieldDescriptorProto): FieldShape {
  const { name, number, type, label, typeName, proto3Optional } = field;
  const isMember = Object.hasOwn(field, "oneofIndex");
  if (proto3Optional) return [name, number, type, label, typeName, field.oneofIndex, true];
  if (isMember) return [name, number, type, label, typeName, field.oneofIndex];
  if (typeName !== "") return [name, number, type, label, typeName];
  return label === 1 ? [name, number, type] : [name, number, type, label];
}

function enumShape({ name, value }: EnumDescriptorProto): EnumShape {
  return [name, value.map(({ name, number }) => [name, number])];
}

function methodShape(
  { name, inputType, outputType, clientStreaming, serverStreaming }: MethodDescriptorProto,
): MethodShape {
  const streams = clientStreaming
    ? serverStreaming ? "both" : "client"
    : serverStreaming
    ? "server"
    : undefined;
  return streams === undefined
    ? [name, inputType, outputType]
    : [name, inputType, outputType, streams];
}
