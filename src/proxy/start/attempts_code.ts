/**
 * Looks at the worker's code and packages when it has just been started, with its rights, and tells
 * the daemon. All of it is beside the run: it has a time limit, and a failure is a line of
 * proxy.log.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { sleep } from "../../base/time/sleep.ts";
import { Ingest } from "../../gen/mosaic/v1/ingest_pb.ts";
import { runProgram } from "../../os/processes/external_program.ts";
import { type Confinement, crossingShell } from "../../os/rights/crossing.ts";
import { collectCode, tellsSomething } from "../../provenance/collect.ts";
import type { DialOptions } from "../../wire/address/dial.ts";
import { MosaicClient } from "../../wire/client/client.ts";

/** A large repository on a slow file system. */
const LOOK_MS = 30_000;
/** The daemon may be restarting. */
const TRIES = 20;
const AGAIN_MS = 3000;

export interface AttemptsCode extends Confinement {
  runId: string;
  attempt: number;
  /** The worker's. */
  command: readonly string[];
  env: Record<string, string>;
  cwd: string;
  /** The daemon's current address, and the proxy's credentials. */
  dialOptions: () => DialOptions;
  log: Logger;
}

/** @throws if nothing could be found out */
export async function recordCode(of: AttemptsCode): Promise<void> {
  const { runId, attempt, command, env, cwd, user, sandbox, log } = of;
  const found = await collectCode(command, env, (script, words, scriptEnv) => {
    const { args, ...options } = crossingShell(["/bin/sh", "-c", script, ...words], {
      user,
      sandbox,
      env: scriptEnv,
      cwd,
    });
    return runProgram(["/bin/sh", ...args], {
      env: options.env,
      cwd: options.cwd,
      limitMs: LOOK_MS,
      group: true,
    });
  });
  if (!tellsSomething(found)) return;
  const { code, environment, diff } = found;
  const message = {
    runId,
    attempt,
    codeJson: JSON.stringify(code),
    environmentJson: JSON.stringify(environment),
    diff,
  };
  for (let tries = 1;; tries++) {
    const { target, token, tls, serverName } = of.dialOptions();
    const client = new MosaicClient(target, { token, tls, serverName });
    try {
      await client.unary(Ingest.method.reportCode, message);
      return log.debug({
        files: code.git?.files.length ?? 0,
        packages: environment.packages.length,
      }, "code recorded");
    } catch (error) {
      const again = error instanceof MosaicError &&
        ["unavailable", "deadline_exceeded"].includes(error.code);
      if (!again || tries >= TRIES) throw error;
      log.debug({ error: messageOf(error) }, "sending the record of the code again");
    } finally {
      client.close();
    }
    await sleep(AGAIN_MS);
  }
}
