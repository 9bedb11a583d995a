import type { DescMethod } from "@bufbuild/protobuf";

/** `/package.Service/Method`, as on the wire. */
export function methodPath(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}
