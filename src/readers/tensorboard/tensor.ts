/**
 * `tensorflow.TensorProto`, as far as summaries use it: numbers and texts. Field numbers are those
 * of the format.
 */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

const DT = {
  FLOAT: 1,
  DOUBLE: 2,
  INT32: 3,
  UINT8: 4,
  INT16: 5,
  INT8: 6,
  STRING: 7,
  INT64: 9,
  BOOL: 10,
  BFLOAT16: 14,
  UINT16: 17,
  HALF: 19,
  UINT32: 22,
  UINT64: 23,
} as const;

/** No summary has more elements; a tensor that claims more is ignored. */
const MAX_ELEMENTS = 1 << 20;

export interface Tensor {
  shape: number[];
  /**
   * The values in row-major order; undefined for texts and for element types that are not real
   * numbers.
   */
  numbers: number[] | undefined;
  /** The values of a string tensor. */
  strings: Uint8Array[] | undefined;
}

function repeated(reader: BinaryReader, wire: WireType, read: () => number, into: number[]): void {
  if (wire !== WireType.LengthDelimited) {
    into.push(read());
    return;
  }
  const end = reader.uint32() + reader.pos;
  if (end > reader.len) throw new RangeError("a packed field ends behind its message");
  while (reader.pos < end) into.push(read());
}

function shapeOf(bytes: Uint8Array): number[] {
  const reader = new BinaryReader(bytes);
  const shape: number[] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    if (field !== 2) {
      reader.skip(wire, field);
      continue;
    }
    const dim = new BinaryReader(reader.bytes());
    let size = 0;
    while (dim.pos < dim.len) {
      const [name, type] = dim.tag();
      if (name === 1) size = Number(dim.int64());
      else dim.skip(type, name);
    }
    shape.push(size);
  }
  return shape;
}

function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return exponent === 0
    ? sign * fraction * 2 ** -24
    : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

const word = new DataView(new ArrayBuffer(4));

function bfloat16ToNumber(bits: number): number {
  word.setUint32(0, (bits & 0xffff) << 16);
  return word.getFloat32(0);
}

type Element = [size: number, read: (view: DataView, at: number) => number];

const ELEMENTS: { readonly [dtype: number]: Element } = {
  [DT.FLOAT]: [4, (v, at) => v.getFloat32(at, true)],
  [DT.DOUBLE]: [8, (v, at) => v.getFloat64(at, true)],
  [DT.INT32]: [4, (v, at) => v.getInt32(at, true)],
  [DT.UINT8]: [1, (v, at) => v.getUint8(at)],
  [DT.INT16]: [2, (v, at) => v.getInt16(at, true)],
  [DT.INT8]: [1, (v, at) => v.getInt8(at)],
  [DT.INT64]: [8, (v, at) => Number(v.getBigInt64(at, true))],
  [DT.BOOL]: [1, (v, at) => v.getUint8(at) === 0 ? 0 : 1],
  [DT.BFLOAT16]: [2, (v, at) => bfloat16ToNumber(v.getUint16(at, true))],
  [DT.UINT16]: [2, (v, at) => v.getUint16(at, true)],
  [DT.HALF]: [2, (v, at) => halfToNumber(v.getUint16(at, true))],
  [DT.UINT32]: [4, (v, at) => v.getUint32(at, true)],
  [DT.UINT64]: [8, (v, at) => Number(v.getBigUint64(at, true))],
};

/** `tensor_content`: the elements in their memory layout. */
function contentNumbers(content: Uint8Array, dtype: number): number[] | undefined {
  const element = ELEMENTS[dtype];
  if (element === undefined) return undefined;
  const [size, read] = element;
  if (content.length % size !== 0 || content.length / size > MAX_ELEMENTS) return undefined;
  const view = new DataView(content.buffer, content.byteOffset, content.length);
  return Array.from({ length: content.length / size }, (_, i) => read(view, i * size));
}

/** @throws if the bytes are not such a message */
export function readTensor(bytes: Uint8Array): Tensor {
  const reader = new BinaryReader(bytes);
  let dtype = 0;
  let shape: number[] = [];
  let content: Uint8Array | undefined;
  const values: number[] = [];
  const strings: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [field, wire] = reader.tag();
    switch (field) {
      case 1:
        dtype = reader.int32();
        break;
      case 2:
        shape = shapeOf(reader.bytes());
        break;
      case 4:
        content = reader.bytes();
        break;
      case 5:
        repeated(reader, wire, () => reader.float(), values);
        break;
      case 6:
        repeated(reader, wire, () => reader.double(), values);
        break;
      case 7: // int_val
      case 13: // half_val
        repeated(reader, wire, () => reader.int32(), values);
        break;
      case 8:
        strings.push(reader.bytes());
        break;
      case 10:
        repeated(reader, wire, () => Number(reader.int64()), values);
        break;
      case 11:
        repeated(reader, wire, () => (reader.bool() ? 1 : 0), values);
        break;
      case 16:
        repeated(reader, wire, () => reader.uint32(), values);
        break;
      case 17:
        repeated(reader, wire, () => Number(reader.uint64()), values);
        break;
      default:
        reader.skip(wire, field);
    }
  }
  if (dtype === DT.STRING) return { shape, numbers: undefined, strings };
  return { shape, numbers: numbersOf(dtype, shape, content, values), strings: undefined };
}

function numbersOf(
  dtype: number,
  shape: number[],
  content: Uint8Array | undefined,
  values: number[],
): number[] | undefined {
  if (content !== undefined && content.length > 0) return contentNumbers(content, dtype);
  if (ELEMENTS[dtype] === undefined) return undefined;
  // Half and bfloat16 are transmitted as their bits.
  if (dtype === DT.HALF) values = values.map((bits) => halfToNumber(bits & 0xffff));
  else if (dtype === DT.BFLOAT16) values = values.map(bfloat16ToNumber);
  const elements = shape.reduce((product, size) => product * size, 1);
  // One value stands for all elements.
  if (values.length === 1 && elements > 1) {
    return elements > MAX_ELEMENTS ? undefined : Array<number>(elements).fill(values[0]!);
  }
  return values;
}
