/**
 * The sender of a request. Without access control, everybody who can reach the page is its owner.
 */
export interface Identity {
  name: string;
  /** May read and change nothing; the page shows no buttons, and secrets in configs stay hidden. */
  readOnly: boolean;
  /** May delete everybody's runs, and see the secrets in configs. */
  admin: boolean;
  /** May change only its own runs and sweeps. */
  own?: boolean;
  /** Sees only its own, too. */
  alone?: boolean;
}

/**
 * Returns the sender of the request, or undefined if it carries no valid credential (answered with
 * 401). `peer` is its address.
 */
export type Authenticate = (
  request: Request,
  peer: string,
) => Identity | undefined | Promise<Identity | undefined>;

export const LOCAL_OWNER: Identity = { name: "local", readOnly: false, admin: true };
