/** What ran: rows of run_code, and their texts, which many runs share. */
import type { SQLInputValue } from "node:sqlite";
import { sha256 } from "../../base/node_modules.ts";

/** Of the registry's database. */
interface Sql {
  get(sql: string, ...values: SQLInputValue[]): Record<string, unknown> | undefined;
  all(sql: string, ...values: SQLInputValue[]): Record<string, unknown>[];
  run(sql: string, ...values: SQLInputValue[]): unknown;
}

/** A record to store; the texts are zstd, `diff` is empty if nothing differs. */
export interface NewCode {
  attempt: number;
  codeJson: string;
  environment: Uint8Array;
  diff: Uint8Array;
}

export interface CodeRow {
  /** 0: at the submission. */
  attempt: number;
  at: number;
  codeJson: string;
  /** Hashes of texts; "": none. */
  environment: string;
  diff: string;
}

export function hashOfText(body: Uint8Array): string {
  return sha256().update(body).digest("hex");
}

/**
 * Within a transaction. The record of the submission is stored once; that of an attempt replaces
 * the earlier one.
 */
export function storeCode(
  sql: Sql,
  runId: string,
  { attempt, codeJson, environment, diff }: NewCode,
  now: number,
): void {
  const isStored =
    sql.get("SELECT 1 FROM run_code WHERE run_id = ? AND attempt = ?", runId, attempt) !==
      undefined;
  if (isStored && attempt === 0) return;
  if (isStored) sql.run("DELETE FROM run_code WHERE run_id = ? AND attempt = ?", runId, attempt);
  const [environmentHash, diffHash] = [environment, diff].map((body) => {
    if (body.length === 0) return "";
    const hash = hashOfText(body);
    sql.run("INSERT OR IGNORE INTO code_texts (hash, body) VALUES (?, ?)", hash, body);
    return hash;
  });
  sql.run(
    "INSERT INTO run_code (run_id, attempt, at, code_json, environment, diff) VALUES (?, ?, ?, ?, ?, ?)",
    ...[runId, attempt, now, codeJson, environmentHash!, diffHash!],
  );
}

export function codeRows(sql: Sql, runId: string): CodeRow[] {
  return sql.all("SELECT * FROM run_code WHERE run_id = ? ORDER BY attempt", runId).map((row) => ({
    attempt: Number(row.attempt),
    at: Number(row.at),
    codeJson: String(row.code_json),
    environment: String(row.environment),
    diff: String(row.diff),
  }));
}

export function codeText(sql: Sql, hash: string): Uint8Array | undefined {
  return sql.get("SELECT body FROM code_texts WHERE hash = ?", hash)?.body as
    | Uint8Array
    | undefined;
}
