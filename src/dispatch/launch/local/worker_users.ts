/** The user of a run's worker, from its config and the daemon's `--worker-user`. */
import { MosaicError } from "../../../base/errors.ts";
import { BASE_DIRS, type Layout } from "../../../base/layout.ts";
import { infoIfThere } from "../../../os/files/files.ts";
import {
  findUser,
  OWNER,
  type WorkerUser,
  type WorkerUserOption,
} from "../../../os/rights/worker_user.ts";

/**
 * A run gets its number at its start. Before that, what it names must be readable for everybody.
 */
const NOBODY = 65534;

const numbered = (uid: number): WorkerUser => ({ uid, gid: uid, name: "", home: "" });

export class WorkerUsers {
  readonly #layout: Layout;
  readonly #isRoot: boolean;
  readonly #option: WorkerUserOption | undefined;
  #taken: Set<number> | undefined;

  /** @param isRoot whether the daemon may start processes as other users */
  constructor(layout: Layout, isRoot: boolean, option: WorkerUserOption | undefined) {
    this.#layout = layout;
    this.#isRoot = isRoot;
    this.#option = option;
  }

  /**
   * @param user `worker.user`; "" for none
   * @param owner the run's: a token's name, uid:N, or ""
   * @throws MosaicError `failed_precondition` where the run cannot have that user
   */
  check(user: string, owner: string): void {
    if (this.#option === OWNER) userOf(owner);
    if (user === "") return;
    const refuse = (why: string) => {
      throw new MosaicError(
        "failed_precondition",
        `metadata.worker.user is ${JSON.stringify(user)}, and ${why}`,
      );
    };
    if (!this.#isRoot) {
      refuse(
        "only a daemon of root can start workers as other users: leave it out, or run the daemon as that user",
      );
    }
    if (this.#option !== undefined && this.#option !== user) {
      refuse("this daemon's --worker-user holds for every run: leave it out");
    }
    findUser(user);
  }

  /**
   * The user of a run's worker, the same for all attempts; undefined: the daemon's own. @throws
   * MosaicError as `check` does
   */
  of(user: string, owner: string, runDirectory: string): WorkerUser | undefined {
    this.check(user, owner);
    if (this.#option === OWNER) return userOf(owner);
    if (this.#option === undefined || typeof this.#option === "string") {
      const name = this.#option ?? user;
      return name === "" ? undefined : findUser(name);
    }
    return numbered(this.#numberOf(runDirectory, this.#option));
  }

  /**
   * Who reads the files that the run's config names, also before the run has a directory;
   * undefined: the daemon's user.
   * @throws MosaicError as `check` does
   */
  reader(user: string, owner: string, runDirectory: string): WorkerUser | undefined {
    const range = this.#option;
    if (range === undefined || typeof range === "string") return this.of(user, owner, runDirectory);
    const own = infoIfThere(runDirectory)?.gid ?? 0;
    return numbered(own >= range.first && own <= range.last ? own : NOBODY);
  }

  /**
   * The group of the run's directory, which only root can change, keeps the run's number
   * (giveRunTo).
   */
  #numberOf(runDirectory: string, range: { first: number; last: number }): number {
    const { first, last } = range;
    const own = Deno.statSync(runDirectory).gid ?? 0;
    if (own >= first && own <= last) return own;
    for (const taken of [this.#taken ?? this.#groups(), this.#groups()]) {
      for (let uid = first; uid <= last; uid++) {
        if (taken.has(uid)) continue;
        this.#taken = taken.add(uid);
        return uid;
      }
    }
    throw new MosaicError(
      "resource_exhausted",
      `all numbers of --worker-user ${first}-${last} belong to runs`,
      {
        hint: "Delete old runs, or start the daemon with a larger range.",
      },
    );
  }

  #groups(): Set<number> {
    const groups = new Set<number>();
    for (const base of BASE_DIRS.map((name) => this.#layout.baseDir(name))) {
      for (const { name } of Deno.readDirSync(base)) {
        groups.add(Deno.lstatSync(`${base}/${name}`).gid ?? 0);
      }
    }
    return groups;
  }
}

/** @throws MosaicError `failed_precondition` if the host has no such user, or it is root */
function userOf(owner: string): WorkerUser {
  const name = owner.replace(/^uid:/, "");
  if (name !== "") return findUser(name);
  throw new MosaicError(
    "failed_precondition",
    `this daemon's --worker-user is ${OWNER}, and the run has no known owner`,
    {
      hint: "Submit it with a token that is named like a user of the host.",
    },
  );
}
