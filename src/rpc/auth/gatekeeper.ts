/** Decides for each call and each message whether its sender may: the table, the tokens, the runs' session tokens. */
import { MosaicError } from "../../base/errors.ts";
import type { RunReader } from "../../registry/reader.ts";
import { type Role, sameToken, type TokenFile, workerToken } from "../../wire/tokens.ts";
import { ruleOf } from "./access.ts";

/** Who calls. A session is a run's own token, its proxy's or its worker's, shown to be one by the first message that names the run. */
export type Principal =
  | { type: "anybody" }
  | { type: "role"; role: Role }
  | { type: "session"; token: string; runId: string | undefined };

export interface Gatekeeper {
  /**
   * @param path `/package.Service/Method`
   * @param token the text after "Bearer "; "" without a credential
   * @throws MosaicError `unauthenticated` without a valid credential, `permission_denied` when it does not suffice
   */
  enter(path: string, token: string): Principal;
  /** Looks at each message of the call. */
  admit(principal: Principal, path: string, message: unknown): void;
}

export function gatekeeper(runs: Pick<RunReader, "get">, tokens: Pick<TokenFile, "roleOf">): Gatekeeper {
  return {
    enter(path, token) {
      const rule = ruleOf(path);
      if (rule === undefined) throw new MosaicError("permission_denied", `nobody may call ${path}`);
      if (rule.needs === "open") return { type: "anybody" };
      const role = tokens.roleOf(token);
      if (role === "admin" || (role === "read" && rule.needs === "read")) return { type: "role", role };
      if (role === "read") {
        throw new MosaicError("permission_denied", `${path} needs the admin token; this is the read token`);
      }
      if (rule.session !== undefined && token !== "") return { type: "session", token, runId: undefined };
      throw unauthenticated(token === "");
    },

    admit(principal, path, message) {
      if (principal.type !== "session") return;
      const rule = ruleOf(path)!;
      const runId = rule.session!(message);
      if (runId === undefined) {
        // Belongs to the message that named the run, which comes first or not at all.
        if (principal.runId === undefined) throw unauthenticated(false);
        return;
      }
      if (principal.runId !== undefined) {
        if (principal.runId === runId) return;
        throw new MosaicError("permission_denied", `the session token of run ${principal.runId} is for that run only`);
      }
      const expected = runs.get(runId)?.sessionToken ?? "";
      // A run that does not exist is answered like a token that is wrong: its id is nobody's to probe.
      const known = sameToken(principal.token, expected) ||
        (rule.worker === true && expected !== "" && sameToken(principal.token, workerToken(expected)));
      if (!known) throw unauthenticated(false);
      principal.runId = runId;
    },
  };
}

function unauthenticated(missing: boolean): MosaicError {
  return new MosaicError(
    "unauthenticated",
    missing ? "this daemon asks for a token" : "the token is not one of this daemon's",
    { hint: 'Set MOSAIC_TOKEN, or use the state directory\'s own: "mosaic token show" prints it.' },
  );
}
