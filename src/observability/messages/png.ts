/** A picture of lines and text as PNG, for services that take pictures and no SVG. Pure. */
import { zlib } from "../../base/node_modules.ts";

export type Colour = readonly [red: number, green: number, blue: number];

/**
 * The characters ! to ~ of a font of 5 × 7 pixels: five columns each, two hexadecimal digits a
 * column, its lowest bit the uppermost pixel.
 */
const GLYPHS = "00005f0000" + "0007000700" + "147f147f14" + "242a7f2a12" + "2313086462" +
  "3649552250" +
  "0008070300" + "001c224100" + "0041221c00" + "2a1c7f1c2a" + "08083e0808" + "0080703000" +
  "0808080808" +
  "0000606000" + "2010080402" + "3e5149453e" + "00427f4000" + "7249494946" + "2141494d33" +
  "1814127f10" +
  "2745454539" + "3c4a494931" + "4121110907" + "3649494936" + "464949291e" + "0000140000" +
  "0040340000" +
  "0008142241" + "1414141414" + "0041221408" + "0201590906" + "3e415d594e" + "7c1211127c" +
  "7f49494936" +
  "3e41414122" + "7f4141413e" + "7f49494941" + "7f09090901" + "3e41415173" + "7f0808087f" +
  "00417f4100" +
  "2040413f01" + "7f08142241" + "7f40404040" + "7f021c027f" + "7f0408107f" + "3e4141413e" +
  "7f09090906" +
  "3e4151215e" + "7f09192946" + "2649494932" + "03017f0103" + "3f4040403f" + "1f2040201f" +
  "3f4038403f" +
  "6314081463" + "0304780403" + "6159494d43" + "007f414141" + "0204081020" + "004141417f" +
  "0402010204" +
  "4040404040" + "0003070800" + "2054547840" + "7f28444438" + "3844444428" + "384444287f" +
  "3854545418" +
  "00087e0902" + "18a4a49c78" + "7f08040478" + "00447d4000" + "2040403d00" + "7f10284400" +
  "00417f4000" +
  "7c04780478" + "7c08040478" + "3844444438" + "fc18242418" + "18242418fc" + "7c08040408" +
  "4854545424" +
  "04043f4424" + "3c4040207c" + "1c2040201c" + "3c4030403c" + "4428102844" + "4c9090907c" +
  "4464544c44" +
  "0008364100" + "0000770000" + "0041360800" + "0201020402";

/** Pixels of a character with its distance to the next one, before enlargement. */
const ADVANCE = 6;
export const TEXT_HEIGHT = 7;

export class Picture {
  readonly #pixels: Uint8Array;

  /** White. */
  constructor(readonly width: number, readonly height: number) {
    this.#pixels = new Uint8Array(width * height * 3).fill(255);
  }

  /** @param share of the colour, 0 to 1, over what is there */
  #blend(x: number, y: number, [red, green, blue]: Colour, share: number): void {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return;
    const at = (y * this.width + x) * 3;
    for (const [i, value] of [red, green, blue].entries()) {
      this.#pixels[at + i] = Math.round(this.#pixels[at + i]! * (1 - share) + value * share);
    }
  }

  /** A line with round ends and smooth edges. @param thickness in pixels */
  line(x1: number, y1: number, x2: number, y2: number, colour: Colour, thickness: number): void {
    const [dx, dy] = [x2 - x1, y2 - y1];
    const square = dx * dx + dy * dy;
    const reach = thickness / 2 + 1;
    for (let y = Math.floor(Math.min(y1, y2) - reach); y <= Math.max(y1, y2) + reach; y++) {
      for (let x = Math.floor(Math.min(x1, x2) - reach); x <= Math.max(x1, x2) + reach; x++) {
        const along = square === 0
          ? 0
          : Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / square));
        const distance = Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
        const share = thickness / 2 + 0.5 - distance;
        if (share > 0) this.#blend(x, y, colour, Math.min(1, share));
      }
    }
  }

  /** Characters beyond ASCII become `?`. @param enlarged pixels for one of the font */
  text(x: number, y: number, text: string, colour: Colour, enlarged = 2): void {
    for (const [i, character] of [...text].entries()) {
      const code = /^[ -~]$/.test(character) ? character.charCodeAt(0) : 0x3f;
      if (code === 0x20) continue;
      for (let column = 0; column < 5; column++) {
        const bits = parseInt(
          GLYPHS.slice(((code - 0x21) * 5 + column) * 2, ((code - 0x21) * 5 + column) * 2 + 2),
          16,
        );
        for (let row = 0; row < 8; row++) {
          if ((bits >> row & 1) === 0) continue;
          for (let pixel = 0; pixel < enlarged * enlarged; pixel++) {
            const left = x + (i * ADVANCE + column) * enlarged + pixel % enlarged;
            this.#blend(left, y + row * enlarged + Math.floor(pixel / enlarged), colour, 1);
          }
        }
      }
    }
  }

  png(): Uint8Array<ArrayBuffer> {
    const { width, height } = this;
    const header = new DataView(new ArrayBuffer(13));
    header.setUint32(0, width);
    header.setUint32(4, height);
    // 8 bits a channel, RGB.
    header.setUint16(8, 0x0802);
    // Each row begins with its filter: none.
    const rows = new Uint8Array(height * (width * 3 + 1));
    for (let y = 0; y < height; y++) {
      rows.set(this.#pixels.subarray(y * width * 3, (y + 1) * width * 3), y * (width * 3 + 1) + 1);
    }
    return joined([
      Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
      chunk("IHDR", new Uint8Array(header.buffer)),
      chunk("IDAT", new Uint8Array(zlib().deflateSync(rows))),
      chunk("IEND", new Uint8Array()),
    ]);
  }
}

/** Width of a text in pixels. */
export function textWidth(text: string, enlarged = 2): number {
  return [...text].length * ADVANCE * enlarged;
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const body = joined([new TextEncoder().encode(type), data]);
  const [length, sum] = [new DataView(new ArrayBuffer(4)), new DataView(new ArrayBuffer(4))];
  length.setUint32(0, data.length);
  sum.setUint32(0, zlib().crc32(body));
  return joined([new Uint8Array(length.buffer), body, new Uint8Array(sum.buffer)]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
