/**
 * What of the protobuf library knows the well-known types: JSON, and descriptors as messages. Making their descriptors takes
 * longer than all of mosaic's, so this is loaded at its first use, and the executable has it as a program of its own
 * (scripts/compile/build.ts).
 */
export { fromJson, toBinary, toJson } from "@bufbuild/protobuf";
export { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
