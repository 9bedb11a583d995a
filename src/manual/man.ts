/** The page of all commands as man pages: `mosaic docs --man` writes them. */
import { Lexer, type Token, type Tokens } from "marked";
import { VERSION } from "../base/version.ts";

/** The page that is generated from `--help`. */
export const COMMANDS_PAGE = "reference/commands";
const SECTION = 1;
const FIRST = "All commands";

/**
 * Files by name, such as `mosaic-run.1`; `mosaic.1` has what all commands share.
 * @param text of {@link COMMANDS_PAGE}: an introduction, and a heading for each command
 */
export function manPages(text: string): Map<string, string> {
  const sections: { heading: string; tokens: Token[] }[] = [{ heading: "", tokens: [] }];
  for (const token of new Lexer().lex(text)) {
    const isHeading = token.type === "heading" && token.depth === 2;
    if (isHeading) sections.push({ heading: token.text, tokens: [] });
    else if (token.type !== "heading") sections.at(-1)!.tokens.push(token);
  }
  const [introduction, shared, ...commands] = sections;
  if (shared?.heading !== FIRST) throw new Error(`${COMMANDS_PAGE} does not begin as it should`);
  const pages = new Map<string, string>();
  const words = "training runs on this host, every record kept";
  const body = [
    ...[".SH SYNOPSIS", ".B mosaic", "COMMAND [ARGUMENTS]"],
    ...[".SH DESCRIPTION", ...blocks(introduction!.tokens)],
    ...blocks(shared.tokens.filter(({ type, raw }) => type !== "paragraph" || !/^\*\*/.test(raw))),
  ];
  pages.set(fileOf("mosaic"), page("mosaic", words, body));
  for (const { heading, tokens } of commands) {
    const name = heading.replaceAll(" ", "-");
    const usage = tokens.find((token): token is Tokens.Code =>
      token.type === "code" && token.lang === ""
    );
    const rest = tokens.filter((token) => token !== usage);
    const about = rest.find((token) => token.type === "paragraph") as Tokens.Paragraph | undefined;
    const summary = inline(about?.tokens ?? []).split(/(?<=[^.]{3})[.:;](?: |$)/)[0]!;
    const seeAlso = [".SH SEE ALSO", ".BR mosaic (1)", "\\- what all commands share"];
    const synopsis = usage === undefined ? [] : [".SH SYNOPSIS", ...preformatted(usage.text)];
    pages.set(
      fileOf(name),
      page(name, summary, [...synopsis, ".SH DESCRIPTION", ...blocks(rest), ...seeAlso]),
    );
  }
  return pages;
}

const fileOf = (name: string) => `${name}.${SECTION}`;

function page(name: string, summary: string, body: readonly string[]): string {
  return [
    `.TH ${escaped(name.toUpperCase())} ${SECTION} "" "mosaic ${escaped(VERSION)}" "mosaic"`,
    ".SH NAME",
    `${escaped(name)} \\- ${summary}`,
    // Paragraphs begin below a heading without a request.
    ...body.filter((request, at) => request !== ".PP" || !body[at - 1]?.startsWith(".SH ")),
    "",
  ].join("\n");
}

function blocks(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token) => {
    switch (token.type) {
      case "paragraph":
        return [".PP", line(inline(token.tokens ?? []))];
      case "table":
        return [
          ...headingOf((token as Tokens.Table).header[0]!.text),
          ...(token as Tokens.Table).rows.flatMap(([term, ...cells]) => [
            ".TP",
            line(inline(term!.tokens)),
            line(cells.map(({ tokens }) => inline(tokens)).join(" ")) || "\\&",
          ]),
        ];
      case "code":
        return [...headingOf(token.lang), ...preformatted(token.text)];
      case "space":
      case "html":
        return [];
      default:
        throw new Error(`man pages have no form for ${token.type}: ${token.raw}`);
    }
  });
}

const HEADINGS: Record<string, string> = {
  Argument: "ARGUMENTS",
  Option: "OPTIONS",
  Variable: "ENVIRONMENT",
  Code: "EXIT STATUS",
  sh: "EXAMPLES",
};

/** By the first column of a table, or the language of a block of code. */
function headingOf(what: string): string[] {
  return HEADINGS[what] === undefined ? [] : [`.SH ${HEADINGS[what]}`];
}

function preformatted(text: string): string[] {
  return [".nf", ...text.split("\n").map((one) => line(escaped(one))), ".fi"];
}

function inline(tokens: readonly Token[]): string {
  return tokens.map((token): string => {
    if (token.type === "codespan") return `\\fB${escaped(token.text)}\\fR`;
    if (token.type === "strong") return `\\fB${inline(token.tokens ?? [])}\\fR`;
    if ("tokens" in token && token.tokens !== undefined) return inline(token.tokens);
    return escaped("text" in token ? token.text : token.raw);
  }).join("").replaceAll("\n", " ");
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-");
}

/** A line of text: a point or an apostrophe at its beginning would be a request. */
const line = (text: string) => text.replace(/^[.']/, "\\&$&");
