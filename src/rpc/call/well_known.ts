/**
 * The functions of the protobuf library that need the well-known types: for JSON, and for
 * descriptors as messages. Creating the descriptors of these types takes longer than those of
 * mosaic's own, so this file is loaded at its first use, and the executable contains it as a
 * separate bundle (scripts/compile/build.ts).
 */
export { fromJson, toBinary, toJson } from "@bufbuild/protobuf";
export { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
