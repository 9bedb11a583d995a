/**
 * The forms of calls and answers, by content type: Connect and gRPC-Web, with messages in binary or
 * as JSON.
 */
import { parsedJson } from "../../base/text/json_text.ts";
import {
  create,
  type DescMessage,
  fromBinary,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { decode, encode } from "../call/calls.ts";
import { endOfStream, webTrailers } from "./errors.ts";

/** Encodes and decodes messages. */
export interface Coding {
  /** @throws MosaicError `invalid_argument` */
  decode(schema: DescMessage, bytes: Uint8Array): MessageShape<DescMessage>;
  encode(schema: DescMessage, message: MessageInitShape<DescMessage>): Uint8Array<ArrayBuffer>;
  /** Converts an encoded binary message. */
  ofBinary(schema: DescMessage, bytes: Uint8Array): Uint8Array;
}

export const BINARY: Coding = { decode, encode, ofBinary: (_, bytes) => bytes };

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

let json: Promise<Coding> | undefined;

export function jsonCoding(): Promise<Coding> {
  return json ??= import("../call/well_known.ts").then(({ fromJson, toJson }) => {
    const textOf = (schema: DescMessage, message: MessageShape<DescMessage>) =>
      encoder.encode(JSON.stringify(toJson(schema, message)));
    return {
      decode(schema, bytes) {
        try {
          const json = bytes.length === 0 ? {} : parsedJson(decoder.decode(bytes)) as JsonValue;
          return fromJson(schema, json, { ignoreUnknownFields: true });
        } catch (error) {
          throw new MosaicError(
            "invalid_argument",
            `not a ${schema.typeName} message in JSON: ${messageOf(error)}`,
            {
              cause: error,
            },
          );
        }
      },
      encode: (schema, message) => textOf(schema, create(schema, message)),
      ofBinary: (schema, bytes) => textOf(schema, fromBinary(schema, bytes)),
    };
  });
}

export interface UnaryForm {
  type: string;
  /** Undefined: `jsonCoding`, which is loaded at its first use. */
  coding: Coding | undefined;
}

/** Messages in envelopes; the last envelope contains the result of the call. */
export interface EnvelopedForm extends UnaryForm {
  /** The header with the call's deadline. */
  timeout: "connect-timeout-ms" | "grpc-timeout";
  end(error?: unknown): Uint8Array;
}

const connect = { timeout: "connect-timeout-ms", end: endOfStream } as const;
const web = { timeout: "grpc-timeout", end: webTrailers } as const;

/** Connect's unary calls. */
const UNARY: readonly UnaryForm[] = [
  { type: "application/proto", coding: BINARY },
  { type: "application/json", coding: undefined },
];
/** Connect's streams. */
const STREAM: readonly EnvelopedForm[] = [
  { type: "application/connect+proto", coding: BINARY, ...connect },
  { type: "application/connect+json", coding: undefined, ...connect },
];
/** gRPC-Web's unary calls and streams. */
const WEB: readonly EnvelopedForm[] = [
  { type: "application/grpc-web+proto", coding: BINARY, ...web },
  { type: "application/grpc-web", coding: BINARY, ...web },
  { type: "application/grpc-web+json", coding: undefined, ...web },
];

/** By the content type, which may have parameters. */
function formOf<F extends UnaryForm>(forms: readonly F[], contentType: string): F | undefined {
  const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
  return forms.find((form) => form.type === type);
}

export const unaryForm = (contentType: string) => formOf(UNARY, contentType);
export const streamForm = (contentType: string) => formOf(STREAM, contentType);
export const webForm = (contentType: string) => formOf(WEB, contentType);
