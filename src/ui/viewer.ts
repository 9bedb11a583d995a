/** Who sent a request. Without access control, everybody who can reach the page is its owner. */
export interface Identity {
  name: string;
  /** May read, but change nothing; the page shows no buttons, and secrets in configs stay hidden. */
  readOnly: boolean;
  /** May delete runs, and see the secrets in configs. */
  admin: boolean;
}

/** Gives who sent the request, or undefined when it carries no valid credential (answered with 401). `peer` is the address it came from. */
export type Authenticate = (request: Request, peer: string) => Identity | undefined | Promise<Identity | undefined>;

export const LOCAL_OWNER: Identity = { name: "local", readOnly: false, admin: true };
