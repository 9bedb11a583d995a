/**
 * Creates the descriptors of protobuf files from their shapes in generated code. The library itself
 * decodes them from binary, and first creates the descriptors of descriptors for that: together a
 * quarter of a short command's time.
 */
import { createFileRegistry, type DescFile } from "@bufbuild/protobuf";
import { type GenFile, type GenMessage, messageDesc } from "@bufbuild/protobuf/codegenv2";
import { protoCamelCase } from "@bufbuild/protobuf/reflect";
import type { FileDescriptorProto, Timestamp } from "@bufbuild/protobuf/wkt";

/** Values of `google.protobuf.FieldDescriptorProto`; the label is 3 for a repeated field. */
export type FieldShape = [
  name: string,
  number: number,
  type: number,
  label?: number,
  typeName?: string,
  oneof?: number,
  optional?: boolean,
];
export interface MessageShape {
  name: string;
  fields?: FieldShape[];
  oneofs?: string[];
  nested?: MessageShape[];
  enums?: EnumShape[];
  mapEntry?: true;
}
export type EnumShape = [name: string, values: [name: string, number: number][]];
export type MethodShape = [
  name: string,
  input: string,
  output: string,
  streams?: "client" | "server" | "both",
];
export interface FileShape {
  name: string;
  package: string;
  messages: MessageShape[];
  enums?: EnumShape[];
  services?: [name: string, methods: MethodShape[]][];
}

/** @param imports the files that it imports, in its order */
export function fileOf(shape: FileShape, imports: readonly DescFile[] = []): GenFile {
  const proto = fileProto(shape, imports.map(({ proto }) => proto.name));
  return createFileRegistry(proto, (name) => imports.find(({ proto }) => proto.name === name))
    .getFile(shape.name)!;
}

/** The message that a decoder would return for the file. */
export function fileProto(shape: FileShape, dependency: string[]): FileDescriptorProto {
  return {
    $typeName: "google.protobuf.FileDescriptorProto",
    name: shape.name,
    package: shape.package,
    dependency,
    publicDependency: [],
    weakDependency: [],
    optionDependency: [],
    messageType: shape.messages.map(messageProto),
    enumType: (shape.enums ?? []).map(enumProto),
    service: (shape.services ?? []).map(([name, methods]) => ({
      $typeName: "google.protobuf.ServiceDescriptorProto",
      name,
      method: methods.map(methodProto),
    })),
    extension: [],
    syntax: "proto3",
  } as unknown as FileDescriptorProto;
}

function messageProto(
  { name, fields = [], oneofs = [], nested = [], enums = [], mapEntry }: MessageShape,
): object {
  return {
    $typeName: "google.protobuf.DescriptorProto",
    name,
    field: fields.map(fieldProto),
    extension: [],
    nestedType: nested.map(messageProto),
    enumType: enums.map(enumProto),
    extensionRange: [],
    oneofDecl: oneofs.map((name) => ({ $typeName: "google.protobuf.OneofDescriptorProto", name })),
    reservedRange: [],
    reservedName: [],
    ...(mapEntry && {
      options: { $typeName: "google.protobuf.MessageOptions", mapEntry, uninterpretedOption: [] },
    }),
  };
}

function fieldProto(
  [name, number, type, label = 1, typeName = "", oneof, optional]: FieldShape,
): object {
  return {
    $typeName: "google.protobuf.FieldDescriptorProto",
    name,
    number,
    label,
    type,
    jsonName: protoCamelCase(name),
    ...(typeName !== "" && { typeName }),
    ...(oneof !== undefined && { oneofIndex: oneof }),
    ...(optional && { proto3Optional: true }),
  };
}

function enumProto([name, values]: EnumShape): object {
  return {
    $typeName: "google.protobuf.EnumDescriptorProto",
    name,
    value: values.map(([name, number]) => ({
      $typeName: "google.protobuf.EnumValueDescriptorProto",
      name,
      number,
    })),
    reservedRange: [],
    reservedName: [],
  };
}

function methodProto([name, inputType, outputType, streams]: MethodShape): object {
  return {
    $typeName: "google.protobuf.MethodDescriptorProto",
    name,
    inputType,
    outputType,
    ...((streams === "client" || streams === "both") && { clientStreaming: true }),
    ...((streams === "server" || streams === "both") && { serverStreaming: true }),
  };
}

export const file_google_protobuf_timestamp: GenFile = /*@__PURE__*/ fileOf({
  name: "google/protobuf/timestamp.proto",
  package: "google.protobuf",
  messages: [{ name: "Timestamp", fields: [["seconds", 1, 3], ["nanos", 2, 5]] }],
});

export const TimestampSchema: GenMessage<Timestamp> = /*@__PURE__*/ messageDesc(
  file_google_protobuf_timestamp,
  0,
);
